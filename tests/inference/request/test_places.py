"""What a replica cannot work on now waits in the gateway, where the better tier is first."""

import asyncio
from typing import Any

import msgspec

from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import (
    OTHER_KEY,
    SMALL,
    Gateway,
    Serve,
    a_snapshot,
    unique,
    with_pool,
)
from tests.support.gateway.triton_double import StartDouble, TritonDouble
from tests.support.wait import eventually_async


def ask(gateway: Gateway, *key: str) -> asyncio.Task[Any]:
    create = gateway.client(*key).chat.completions.create
    return asyncio.ensure_future(create(model=SMALL, messages=unique(), max_tokens=2))


async def waiting(gateway: Gateway, number: int) -> None:
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.metric("weir_gateway_pool_waiting") == number))


async def ready(gateway: Gateway, number: int) -> None:
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == number))


async def obey(gateway: Gateway, snapshot: Snapshot) -> None:
    version = gateway.ready()["policy_version"] + 1_000_000
    await asyncio.to_thread(gateway.obey, msgspec.structs.replace(snapshot, version=version))


def of(*doubles: TritonDouble, **tier: int) -> Snapshot:
    """One request at a time at each replica. `tier` is premium's."""
    snapshot = with_pool(a_snapshot(*(double.address for double in doubles)), SMALL, replica_concurrency=1)
    tiers = [msgspec.structs.replace(it, **tier) if it.name == "premium" else it for it in snapshot.tiers]
    return msgspec.structs.replace(snapshot, tiers=tuple(tiers))


async def test_requests_wait_in_the_gateway_and_a_new_replica_takes_them_at_once(
    serve: Serve, start_double: StartDouble
) -> None:
    doubles = [await start_double() for _ in range(3)]
    for double in doubles:
        double.gate.clear()
    gateway = await asyncio.to_thread(serve, of(*doubles[:2]))
    await ready(gateway, 2)
    standard = [ask(gateway) for _ in range(2)]
    await eventually_async(lambda: [double.at_once for double in doubles] == [1, 1, 0])
    standard.append(ask(gateway))
    await waiting(gateway, 1)
    premium = ask(gateway, OTHER_KEY)
    await waiting(gateway, 2)
    await obey(gateway, of(*doubles))
    await eventually_async(lambda: doubles[2].priorities == [1])
    await waiting(gateway, 1)
    for double in doubles:
        double.gate.set()
    await asyncio.gather(*standard, premium)
    assert max(double.most_at_once for double in doubles) == 1


async def test_an_answer_is_stored_though_replicas_came_while_its_request_waited(
    serve_cached: Serve, start_double: StartDouble
) -> None:
    doubles = [await start_double() for _ in range(2)]
    for double in doubles:
        double.gate.clear()
    gateway = await asyncio.to_thread(serve_cached, of(doubles[0]))
    await ready(gateway, 1)
    first = ask(gateway)
    await eventually_async(lambda: doubles[0].at_once == 1)
    asked: dict[str, Any] = {"model": SMALL, "messages": unique(), "max_tokens": 2, "temperature": 0}
    create = gateway.client().chat.completions.with_raw_response.create
    queued = asyncio.ensure_future(create(**asked))
    await waiting(gateway, 1)
    await obey(gateway, of(*doubles))
    for double in doubles:
        double.gate.set()
    await asyncio.gather(first, queued)

    async def stored() -> bool:
        return (await create(**asked)).headers["x-weir-cache"] == "hit"

    await eventually_async(stored)
    assert sum(double.inferences.total() for double in doubles) == 2


async def test_a_leaving_replica_takes_its_places_along(serve: Serve, start_double: StartDouble) -> None:
    doubles = [await start_double() for _ in range(2)]
    for double in doubles:
        double.gate.clear()
    gateway = await asyncio.to_thread(serve, of(*doubles))
    await ready(gateway, 2)
    begun = [ask(gateway) for _ in range(2)]
    await eventually_async(lambda: [double.at_once for double in doubles] == [1, 1])
    both = of(*doubles)
    (pool,) = (pool for pool in both.pools if pool.name == SMALL)
    first, second = pool.endpoints
    leaving = (msgspec.structs.replace(first, draining=True), second)
    await obey(gateway, with_pool(both, SMALL, endpoints=leaving))
    begun += [ask(gateway) for _ in range(2)]
    await waiting(gateway, 2)
    doubles[0].gate.set()
    await eventually_async(lambda: doubles[0].at_once == 0)
    assert gateway.metric("weir_gateway_pool_waiting") == 2, "the place of the replica that leaves is gone"
    doubles[1].gate.set()
    await asyncio.gather(*begun)
    assert [double.inferences.total() for double in doubles] == [1, 3]
    assert doubles[1].most_at_once == 1


async def test_a_reserve_is_free_when_the_better_tier_comes(serve: Serve, start_double: StartDouble) -> None:
    doubles = [await start_double() for _ in range(2)]
    for double in doubles:
        double.gate.clear()
    gateway = await asyncio.to_thread(serve, of(*doubles, reserved_percent=10))
    await ready(gateway, 2)
    standard = [ask(gateway) for _ in range(2)]
    await waiting(gateway, 1)
    premium = ask(gateway, OTHER_KEY)
    await eventually_async(lambda: [double.at_once for double in doubles] == [1, 1])
    assert gateway.metric("weir_gateway_pool_waiting") == 1
    for double in doubles:
        double.gate.set()
    await asyncio.gather(*standard, premium)
    assert sorted(doubles[0].priorities + doubles[1].priorities) == [1, 2, 2]
