"""Limits that several gateways count together, in a real Redis."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploy.local.process import Managed
from deploy.local.redis import Redis
from inference.contract.metering.rate_limit import Limit, Window, limits_of
from inference.contract.metering.spending import period_of
from inference.contract.snapshot import Key, Tier
from inference.core.openai.errors import ApiError, RetryableApiError
from inference.request import limits as limits_module
from inference.request.limit_script import SCRIPT
from inference.request.limits import Limits, Meter
from inference.wires.redis import RedisClient, open_redis
from tests.support.wait import eventually_async

LONG_S = 60.0
OpenGateways = Callable[..., Awaitable[list[Limits]]]


def limits(**changes: int) -> tuple[Limit, ...]:
    """Of a tenant that no test has used before."""
    return limits_of(f"tenant-{secrets.token_hex(6)}", Tier("t", **changes))


@pytest.fixture
async def open_gateways(redis_url: str) -> AsyncIterator[OpenGateways]:
    """`await open_gateways(4)`: what so many gateways count with, each over a connection of its own."""
    running: list[tuple[Limits, RedisClient]] = []

    async def begin(number: int, url: str = redis_url, lease_ms: int = 60_000) -> list[Limits]:
        for _ in range(number):
            client = open_redis(url)
            client.start()
            running.append((Limits(client, lease_ms), client))
        await eventually_async(lambda: all(client.up for _, client in running))
        return [service for service, _ in running[-number:]]

    yield begin
    for service, client in running:
        service.close()
        await client.close()


async def enter(service: Limits, of: Sequence[Limit], tokens: int = 1) -> Meter | RetryableApiError:
    meter = service.begin(of, "t", tokens, LONG_S)
    try:
        await meter.entered()
    except ApiError as error:
        assert isinstance(error, RetryableApiError)
        return error
    return meter


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[RedisClient]:
    here = open_redis(redis_url)
    here.start()
    await eventually_async(lambda: here.up)
    yield here
    await here.close()


async def run(client: RedisClient, limit: Limit, mode: str, now_ms: int, tokens: int = 0, slot: int = 0) -> Any:
    return await client.send(
        b"EVAL", SCRIPT, 1, limit.key, mode, now_ms, "lease", 1_000, tokens, slot, limit.kind, limit.most
    )


async def test_redis_counts_as_a_gateway_does_alone(client: RedisClient) -> None:
    loop = asyncio.get_running_loop()

    @given(
        st.integers(1, 40),
        st.lists(
            st.tuples(st.sampled_from(["enter", "more", "back"]), st.integers(0, 40_000), st.integers(0, 20)),
            max_size=25,
        ),
    )
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def check(most: int, steps: list[tuple[str, int, int]]) -> None:
        asyncio.run_coroutine_threadsafe(compare(most, steps), loop).result(LONG_S)

    async def compare(most: int, steps: list[tuple[str, int, int]]) -> None:
        (limit,), window = limits(tokens_per_minute=most), Window()
        now_ms, slot = 1_700_000_000_000, 0
        for mode, pause_ms, tokens in steps:
            now_ms += min(pause_ms, 59_000)
            if mode == "enter":
                reply = await run(client, limit, mode, now_ms, tokens)
                assert reply[1] == window.wait_ms(most, now_ms)
                assert reply[3] == window.used(now_ms) + (tokens if not reply[0] else 0)
                if not reply[0]:
                    slot = window.take(tokens, now_ms)
                    assert reply[2] == slot
            elif mode == "more" and tokens:
                await run(client, limit, "settle", now_ms, tokens)
                window.take(tokens, now_ms)
            elif mode == "back" and tokens:
                window.used(now_ms)
                await run(client, limit, "settle", now_ms, -tokens, slot)
                window.give_back(tokens, slot)

    await asyncio.to_thread(check)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("requests_per_minute", "100 requests a minute"),
        ("max_in_flight", "100 requests in flight at a time"),
    ],
)
async def test_four_gateways_let_in_exactly_the_limit(open_gateways: OpenGateways, kind: str, message: str) -> None:
    gateways, of = await open_gateways(4), limits(**{kind: 100})
    results = await asyncio.gather(*(enter(gateways[number % 4], of) for number in range(400)))
    refused = [result for result in results if isinstance(result, RetryableApiError)]
    assert len(results) - len(refused) == 100
    error = refused[0]
    assert (error.status, error.reason, error.more) == (429, kind, {"scope": "tenant", "limit": 100})
    assert message in error.message
    assert 0 < error.retry_after_s <= 60.5


async def test_tokens_are_counted_over_gateways_as_they_are_used(
    open_gateways: OpenGateways, client: RedisClient
) -> None:
    first, second = await open_gateways(2)
    of = limits(tokens_per_minute=1_000)
    long = await enter(first, of, tokens=400)
    short = await enter(second, of, tokens=500)
    assert isinstance(long, Meter)
    assert isinstance(short, Meter)
    short.charge(100)
    short.leave()  # 400 are given back
    third = await enter(second, of, tokens=450)
    assert isinstance(third, Meter)
    assert third.used == [950]
    long.charge(450)  # more than was expected: an eighth more is taken
    late = await enter(first, of)
    assert isinstance(late, RetryableApiError)
    assert late.reason == "tokens_per_minute"
    third.leave()
    long.leave()

    async def settled() -> bool:
        return await client.send(b"HGET", of[0].key, b"sum") == b"550"

    await eventually_async(settled, "100, 450 and nothing of the third")


async def test_places_come_free_when_requests_end(open_gateways: OpenGateways) -> None:
    first, second = await open_gateways(2)
    of = limits(max_in_flight=1)
    meter = await enter(first, of)
    assert isinstance(meter, Meter)
    assert isinstance(await enter(second, of), RetryableApiError)
    meter.leave()

    async def free() -> bool:
        return isinstance(await enter(second, of), Meter)

    await eventually_async(free)


async def test_the_places_of_a_gateway_that_was_killed_come_free_and_those_of_others_do_not(
    open_gateways: OpenGateways,
) -> None:
    living, killed, other = await open_gateways(3, lease_ms=600)
    living.start()
    of = limits(max_in_flight=2)
    assert isinstance(await enter(living, of), Meter)
    assert isinstance(await enter(killed, of), Meter)  # it renews nothing, as if it were killed
    assert isinstance(await enter(other, of), RetryableApiError)

    async def free() -> bool:
        return isinstance(await enter(other, of), Meter)

    await eventually_async(free)
    assert isinstance(await enter(killed, of), RetryableApiError), "the living one has kept its place"


async def test_a_place_that_was_given_back_during_a_renewal_stays_free(
    open_gateways: OpenGateways, client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More are held than are renewed at once, so that the others wait for Redis's answer meanwhile."""
    monkeypatch.setattr(limits_module, "_LEASES_AT_ONCE", 3)
    (service,) = await open_gateways(1, lease_ms=3_000)
    of = limits(max_in_flight=100)
    meters = [meter for _ in range(10) if isinstance(meter := await enter(service, of), Meter)]
    wait, renewed = service.wait, asyncio.Event()

    async def leave_meanwhile(reply: Any, timeout_s: float) -> object:
        value = await wait(reply, timeout_s)
        while meters:
            meters.pop().leave()
        renewed.set()
        return value

    monkeypatch.setattr(service, "wait", leave_meanwhile)
    service.start()
    await asyncio.sleep(0)
    service._lease_ms = 600_000  # of what is renewed: longer than this test waits
    await renewed.wait()

    async def free() -> bool:
        return await client.send("ZCARD", of[0].key) == 0

    await eventually_async(free)


async def test_a_command_that_cannot_be_packed_takes_no_other_s_reply(client: RedisClient) -> None:
    before = client.send("PING")
    with pytest.raises(TypeError):
        client.send("GET", object())  # type: ignore[arg-type]
    after = client.send("ECHO", "mine")
    assert (await before, await after) == (b"PONG", b"mine") or (await before, await after) == ("PONG", b"mine")


async def test_a_key_and_its_tenant_are_both_limited(open_gateways: OpenGateways) -> None:
    (service,) = await open_gateways(1)
    name, tier = f"tenant-{secrets.token_hex(6)}", Tier("t", requests_per_minute=5)
    tenant, narrow = limits_of(name, tier), limits_of(name, tier, Key("aa" * 32, requests_per_minute=2))
    results = [await enter(service, narrow) for _ in range(3)]
    assert isinstance(results[2], RetryableApiError)
    assert results[2].more == {"scope": "key", "limit": 2}
    assert "this API key" in results[2].message
    assert (
        dict(results[1].headers() if isinstance(results[1], Meter) else ())[b"x-ratelimit-remaining-requests"] == b"0"
    )
    rest = [await enter(service, tenant) for _ in range(4)]
    assert [isinstance(result, Meter) for result in rest] == [True, True, True, False], "a refusal counts nothing"


async def test_without_redis_each_gateway_counts_alone_and_says_so(
    own_redis: tuple[Redis, Managed], open_gateways: OpenGateways
) -> None:
    server, process = own_redis
    (service,) = await open_gateways(1, server.url)
    of = limits(requests_per_minute=3, max_in_flight=10)
    before = await enter(service, of)
    assert isinstance(before, Meter)
    assert (b"x-weir-limits", b"local") not in before.headers()
    await asyncio.to_thread(process.kill)
    alone = [await enter(service, of) for _ in range(3)]
    assert [isinstance(result, Meter) for result in alone] == [True, True, False], "what it counted before counts"
    assert service.local
    assert service.counted_locally == 3
    meter = alone[0]
    assert isinstance(meter, Meter)
    assert (b"x-weir-limits", b"local") in meter.headers()
    meter.leave()
    await asyncio.to_thread(lambda: process.start().wait_ready())

    async def shared_again() -> bool:
        result = await enter(service, limits(requests_per_minute=3))
        return isinstance(result, Meter) and not service.local

    await eventually_async(shared_again)


async def test_what_a_slow_redis_counts_late_is_settled_too(
    own_redis: tuple[Redis, Managed], open_gateways: OpenGateways
) -> None:
    (service,) = await open_gateways(1, own_redis[0].url)
    of = limits(tokens_per_minute=1_000, max_in_flight=5)
    assert isinstance(await enter(service, of, tokens=1), Meter)
    other = open_redis(own_redis[0].url)
    other.start()
    await eventually_async(lambda: other.up)
    await other.send(b"CLIENT", b"PAUSE", 200, b"ALL")
    meter = service.begin(of, "t", 400, 0.02)
    await meter.entered()
    assert meter.local
    meter.charge(30)
    meter.leave()

    async def settled() -> bool:
        tokens, places = await other.send(b"HGET", of[0].key, b"sum"), await other.send(b"ZCARD", of[1].key)
        return (tokens, places) == (b"31", 1)

    await eventually_async(settled)
    await other.close()


async def test_a_script_that_redis_has_lost_is_sent_again(client: RedisClient, open_gateways: OpenGateways) -> None:
    (service,) = await open_gateways(1)
    await client.send(b"SCRIPT", b"FLUSH")
    of = limits(requests_per_minute=1)
    assert isinstance(await enter(service, of), Meter)
    assert isinstance(await enter(service, of), RetryableApiError)
    assert service.counted_locally == 0


async def test_gateways_keep_a_budget_together_and_begin_anew_with_the_next_period(
    open_gateways: OpenGateways, client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await open_gateways(2)
    of = limits_of(f"tenant-{secrets.token_hex(6)}", Tier("t"), Key("aa" * 32, usd_per_day=1.0, usd_per_month=1.5))

    async def spend(service: Limits, usd: float | None, then: bytes) -> dict[bytes, bytes]:
        """`then` is what was spent in its day afterwards."""
        meter = await enter(service, of)
        assert isinstance(meter, Meter)
        meter.pay(usd, 0.2)
        meter.leave()

        async def settled() -> bool:
            spent = await client.send(b"HVALS", of[0].key)
            return isinstance(spent, list) and spent[-1:] == [then]

        await eventually_async(settled)
        return dict(meter.headers())

    await spend(first, 0.75, b"750000")
    assert (await spend(second, 0.05, b"800000"))[b"x-weir-budget-remaining-usd"] == b"0.250000"
    assert (await spend(first, None, b"1000000"))[b"x-weir-budget-limit-usd"] == b"1.000000", (
        "the one of which the least is left"
    )
    assert first.costs_estimated == 1, "and that is said"
    for service in (first, second):
        refused = await enter(service, of)
        assert isinstance(refused, RetryableApiError)
        assert (refused.status, refused.reason, refused.by_itself) == (429, "budget_per_day", False)
        assert 0 < refused.retry_after_s <= 86_400 and refused.more == {"scope": "key", "limit_usd": 1.0}
    now_s = time.time()
    monkeypatch.setattr("inference.request.limits.period_of", lambda budget, _: period_of(budget, now_s + 86_400 * 40))
    await spend(second, 1.2, b"1200000")
    assert isinstance(await enter(first, of), RetryableApiError), "the new month has a budget of its own"


async def test_a_gateway_without_redis_keeps_a_budget_alone() -> None:
    alone = Limits(None, 60_000)
    of = limits_of("alone", Tier("t"), Key("aa" * 32, usd_per_month=1.0))
    for usd in (0.6, 0.4):
        meter = await enter(alone, of)
        assert isinstance(meter, Meter)
        meter.pay(usd, 0.0)
        meter.leave()
    refused = await enter(alone, of)
    assert isinstance(refused, RetryableApiError) and refused.reason == "budget_per_month"
