"""The gateway follows its policy snapshot, and keeps the last good one."""

import asyncio
import json

import msgspec

from deploy.local.triton import Triton
from inference import snapshot as policy
from inference.snapshot import Snapshot, Tenant
from tests.inference.conftest import StartGateway
from tests.inference.running import KEY, LARGE, SMALL, Gateway, a_snapshot, small_only, unique, within, within_async


def ask(gateway: Gateway, model: str = SMALL, key: str = KEY) -> int:
    body = json.dumps({"model": model, "messages": unique(), "max_tokens": 2}).encode()
    return gateway.ask("POST", "/v1/chat/completions", body, key)[0]


def test_without_a_snapshot_it_lives_but_is_not_ready(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(None)
    assert gateway.get("/healthz", key="")[0] == 200
    assert gateway.get("/readyz", key="")[0] == 503
    assert ask(gateway) == 503
    policy.write(gateway.snapshot_path, snapshot)
    within(10, lambda: gateway.get("/readyz", key="")[0] == 200)
    assert ask(gateway) == 200


def test_a_new_snapshot_is_obeyed_and_a_bad_one_is_not(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot)
    renamed = Tenant("carol", "standard", (policy.key_digest("carols-key"),))
    gateway.obey(msgspec.structs.replace(snapshot, version=2, tenants=(renamed,)))
    assert (ask(gateway), ask(gateway, key="carols-key")) == (401, 200)
    unknown = msgspec.structs.replace(snapshot.models[0], tokenizer="nobodys")
    bad = (
        b"{",
        b"{}",
        policy.encode(msgspec.structs.replace(snapshot, pools=())),
        policy.encode(msgspec.structs.replace(snapshot, models=(unknown,))),
    )
    for number, raw in enumerate(bad, 1):
        gateway.snapshot_path.write_bytes(raw)
        within(
            5,
            lambda: gateway.metric("weir_gateway_policy_refused_total", key="carols-key") >= number,  # noqa: B023
        )
        assert ask(gateway, key="carols-key") == 200
        assert gateway.ready()["policy_version"] == 2
        assert gateway.ready()["policy_error"]
    gateway.snapshot_path.unlink()
    assert ask(gateway, key="carols-key") == 200
    gateway.obey(msgspec.structs.replace(snapshot, version=3))
    assert (ask(gateway), gateway.ready()["policy_error"]) == (200, "")


async def test_a_request_finishes_on_the_snapshot_it_began_on(
    slow_gateway: Gateway, slow_triton: Triton, session_triton: Triton
) -> None:
    """The endpoint it is served by, and the one it waits for, are taken out of the snapshot meanwhile."""
    before = small_only(slow_triton)
    one_place = msgspec.structs.replace(before.pools[0], max_concurrency=1)
    slow_gateway.obey(msgspec.structs.replace(before, version=20, pools=(one_place,)))
    create = slow_gateway.client().chat.completions.create
    served, waiting = (asyncio.ensure_future(create(model=SMALL, messages=unique(), max_tokens=3)) for _ in range(2))
    await within_async(5, lambda: asyncio.to_thread(lambda: slow_gateway.metric("weir_gateway_pool_waiting") == 1))
    after = msgspec.structs.replace(a_snapshot(session_triton.grpc), version=21)
    after = msgspec.structs.replace(after, models=after.models[1:], pools=after.pools[1:])
    await asyncio.to_thread(slow_gateway.obey, after)
    assert (await create(model=LARGE, messages=unique(), max_tokens=2)).choices
    assert (await served).choices[0].message.content
    assert (await waiting).choices[0].message.content
    await asyncio.to_thread(slow_gateway.obey, msgspec.structs.replace(before, version=22))
