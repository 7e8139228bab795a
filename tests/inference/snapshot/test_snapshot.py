"""The gateway follows its policy snapshot, and keeps the last good one."""

import asyncio
import json
import os
import signal

import msgspec

from deploy.local.ports import free_port
from deploy.local.process import Managed
from deploy.local.redis import Redis
from deploy.local.triton import Triton
from inference.contract import snapshot as policy
from inference.contract import snapshot_file
from inference.contract.snapshot import Endpoint, Snapshot, Tenant
from tests.support.gateway.process import (
    KEY,
    LARGE,
    SMALL,
    Gateway,
    StartGateway,
    a_snapshot,
    small_only,
    unique,
    with_model,
    with_pool,
    with_timeouts,
)
from tests.support.wait import eventually, eventually_async


def ask(gateway: Gateway, model: str = SMALL, key: str = KEY) -> int:
    body = json.dumps({"model": model, "messages": unique(), "max_tokens": 2, "temperature": 0}).encode()
    return gateway.ask("POST", "/v1/chat/completions", body, key)[0]


def test_without_a_snapshot_it_runs_but_is_not_ready(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(None)
    assert gateway.get("/healthz", key="")[0] == 200
    assert gateway.get("/readyz", key="")[0] == 503
    assert ask(gateway) == 503
    snapshot_file.write(gateway.snapshot_path, snapshot)
    eventually(lambda: gateway.get("/readyz", key="")[0] == 200)
    assert ask(gateway) == 200


def test_a_new_snapshot_is_obeyed_and_a_bad_one_is_not(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot)
    renamed = Tenant("carol", "standard", (policy.key_digest("carols-key"),))
    gateway.obey(msgspec.structs.replace(snapshot, version=2, tenants=(renamed,)))
    assert (ask(gateway), ask(gateway, key="carols-key")) == (401, 200)
    unknown = msgspec.structs.replace(snapshot.models[0], tokenizer="no/bodys")
    bad = (
        b"{",
        b"{}",
        policy.encode(msgspec.structs.replace(snapshot, pools=())),
        policy.encode(msgspec.structs.replace(snapshot, models=(unknown,))),
    )
    for number, raw in enumerate(bad, 1):
        gateway.snapshot_path.write_bytes(raw)
        eventually(lambda: gateway.metric("weir_gateway_policy_refused_total", key="carols-key") >= number)  # noqa: B023
        assert ask(gateway, key="carols-key") == 200
        assert gateway.ready()["policy_version"] == 2
        assert gateway.ready()["policy_error"]
    gateway.snapshot_path.unlink()
    assert ask(gateway, key="carols-key") == 200
    gateway.obey(msgspec.structs.replace(snapshot, version=3))
    assert (ask(gateway), gateway.ready()["policy_error"]) == (200, "")


def test_a_bad_model_and_a_bad_address_harm_no_other(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    """A model in use keeps its last good form, and the next document is obeyed as usual."""
    gateway = start_gateway(snapshot)
    bad = with_model(snapshot, LARGE, tokenizer="tekkken", max_output_tokens=1)
    endpoints = (*snapshot.pools[0].endpoints, Endpoint("r1", "10.0.0.7"))
    bad = with_pool(bad, SMALL, endpoints=endpoints)
    new = msgspec.structs.replace(bad.models[1], name="new")
    gateway.obey(msgspec.structs.replace(bad, models=(*bad.models, new)))
    assert (ask(gateway), ask(gateway, LARGE)) == (200, 200)
    status, headers, body = gateway.ask(
        "POST", "/v1/chat/completions", json.dumps({"model": "new", "messages": unique()}).encode()
    )
    assert (status, json.loads(body)["error"]["code"]) == (503, "model_misconfigured")
    assert headers["x-should-retry"] == "false"
    faults = gateway.ready()["policy_faults"]
    assert [fault.partition(":")[0] for fault in faults] == ["pool 'chat-small'", "model 'chat-large'", "model 'new'"]
    assert "'10.0.0.7'" in faults[0]
    assert "'tekkken'" in faults[1]
    assert gateway.metric("weir_gateway_policy_fault", kind="model") == 2
    assert gateway.ready()["policy_error"] == ""
    log = gateway.log.read_text()
    assert (log.count("snapshot.part_refused"), log.count("tokenizer.failed")) == (1, 1)
    gateway.obey(msgspec.structs.replace(snapshot, version=bad.version + 1))
    assert gateway.ready()["policy_faults"] == []
    assert gateway.metric("weir_gateway_policy_fault") == 0
    assert (ask(gateway, LARGE), ask(gateway, "new")) == (200, 404)


async def test_a_request_that_has_chosen_its_pool_is_served_there_whatever_is_swapped_meanwhile(
    start_gateway: StartGateway, session_triton: Triton, own_redis: tuple[Redis, Managed]
) -> None:
    """It waits for a cache that hangs while two newer snapshots take its replica away."""
    server, process = own_redis
    first = with_timeouts(a_snapshot(session_triton.grpc), cache_ms=30_000)
    gateway = start_gateway(first, redis_url=server.url)
    await eventually_async(lambda: gateway.ready()["cache"] == "up")
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        status = asyncio.ensure_future(asyncio.to_thread(ask, gateway))
        await eventually_async(
            lambda: asyncio.to_thread(lambda: gateway.metric("weir_gateway_requests_in_flight") == 1)
        )
        other = msgspec.structs.replace(first, version=first.version + 1)
        await asyncio.to_thread(gateway.obey, other)
        lost = a_snapshot(f"127.0.0.1:{free_port()}", version=other.version + 1)
        await asyncio.to_thread(gateway.obey, lost)
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    assert await status == 200
    assert ask(gateway) == 503, "the newest snapshot's replica does not exist"


async def test_a_request_finishes_on_the_snapshot_it_began_on(
    slow_gateway: Gateway, slow_triton: Triton, session_triton: Triton
) -> None:
    """A new snapshot has neither the endpoint that serves the request nor the place that another one waits for."""
    before = small_only(slow_triton)
    one_place = msgspec.structs.replace(before.pools[0], max_concurrency=1)
    slow_gateway.obey(msgspec.structs.replace(before, version=20, pools=(one_place,)))
    create = slow_gateway.client().chat.completions.create
    served, waiting = (asyncio.ensure_future(create(model=SMALL, messages=unique(), max_tokens=3)) for _ in range(2))
    await eventually_async(lambda: asyncio.to_thread(lambda: slow_gateway.metric("weir_gateway_pool_waiting") == 1))
    after = msgspec.structs.replace(a_snapshot(session_triton.grpc), version=21)
    after = msgspec.structs.replace(after, models=after.models[1:], pools=after.pools[1:])
    await asyncio.to_thread(slow_gateway.obey, after)
    assert (await create(model=LARGE, messages=unique(), max_tokens=2)).choices
    assert (await served).choices[0].message.content
    assert (await waiting).choices[0].message.content
    await asyncio.to_thread(slow_gateway.obey, msgspec.structs.replace(before, version=22))
