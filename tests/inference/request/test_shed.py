"""What a request is answered that is refused so that others are served, and that it is counted."""

import asyncio
import json
from typing import Any

import openai
import pytest

from inference.contract.snapshot import Key, Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import (
    KEY,
    OTHER_KEY,
    SMALL,
    Gateway,
    Serve,
    StartGateway,
    a_snapshot,
    unique,
    with_fresh_tenants,
    with_pool,
    with_timeouts,
)
from tests.support.gateway.triton_double import StartDouble, TritonDouble
from tests.support.wait import eventually_async

SECOND_KEY = "weir-test-alice-2"


def ask(gateway: Gateway, key: str = KEY, **options: Any) -> asyncio.Task[Any]:
    create = gateway.client(key, **options).chat.completions.create
    return asyncio.ensure_future(create(model=SMALL, messages=unique(), max_tokens=2))


def limited(double: TritonDouble, key: Key | None = None, **tier: int) -> Snapshot:
    """Tenant `alice`, in tier `standard` with these limits, has `KEY` and another one, which may have its own limits."""
    keys = (key,) if key else ()
    plain = tuple(map(key_digest, (KEY, SECOND_KEY)[: 1 if key else 2]))
    return with_fresh_tenants(
        a_snapshot(
            double.address,
            tiers=(Tier("standard", **tier), Tier("premium", priority=1)),
            tenants=(
                Tenant("alice", "standard", plain, keys),
                Tenant("bob", "premium", (key_digest(OTHER_KEY),)),
            ),
        )
    )


def shed(gateway: Gateway, reason: str, tier: str = "standard") -> float:
    return gateway.metric("weir_gateway_shed_total", reason=reason, tier=tier)


async def refusal(request: Any) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as refused:
        await request
    return refused.value


async def test_a_key_is_limited_below_its_tenant(serve: Serve, start_double: StartDouble) -> None:
    double = await start_double()
    gateway = await asyncio.to_thread(
        serve, limited(double, Key(key_digest(SECOND_KEY), requests_per_minute=2), requests_per_minute=4)
    )
    before = shed(gateway, "requests_per_minute")
    for _ in range(2):
        await ask(gateway, SECOND_KEY)
    error: Any = await refusal(ask(gateway, SECOND_KEY))
    assert (error.status_code, error.body["reason"], error.body["scope"], error.body["limit"]) == (
        429,
        "requests_per_minute",
        "key",
        2,
    )
    assert 0 < float(error.response.headers["retry-after"]) <= 61
    for _ in range(2):
        await ask(gateway)
    other: Any = await refusal(ask(gateway))
    assert (other.body["scope"], other.body["limit"]) == ("tenant", 4), "the key's requests are the tenant's too"
    assert shed(gateway, "requests_per_minute") == before + 2


@pytest.mark.parametrize("way", ["answered", "disconnected"])
async def test_requests_in_flight_are_limited(serve: Serve, start_double: StartDouble, way: str) -> None:
    double = await start_double()
    gateway = await asyncio.to_thread(serve, limited(double, max_in_flight=2))
    double.gate.clear()
    begun = [ask(gateway), ask(gateway, SECOND_KEY)]
    await eventually_async(lambda: double.at_once == 2)
    error: Any = await refusal(ask(gateway))
    assert (error.status_code, error.code, error.body["reason"]) == (429, "rate_limit_exceeded", "max_in_flight")
    assert "2 requests in flight at a time" in error.body["message"]
    premium = ask(gateway, OTHER_KEY)
    await eventually_async(lambda: double.at_once == 3, "another tenant is not limited")
    if way == "answered":
        double.gate.set()
        await asyncio.gather(*begun)
    else:
        begun[0].cancel()
        await eventually_async(lambda: double.at_once == 2)
        double.gate.set()
    await asyncio.gather(ask(gateway), premium)


async def test_whoever_waited_too_long_hears_when_to_come_back(serve: Serve, start_double: StartDouble) -> None:
    double = await start_double()
    narrow = with_pool(limited(double), SMALL, max_concurrency=1)
    gateway = await asyncio.to_thread(serve, with_timeouts(narrow, queue_ms=30))
    before = [shed(gateway, reason) for reason in ("queue_timeout", "deadline")]
    double.gate.clear()
    first = ask(gateway)
    await eventually_async(lambda: double.at_once == 1)
    late: Any = await refusal(ask(gateway))
    assert (late.status_code, late.code, late.body["reason"]) == (504, "stage_timeout", "queue_timeout")
    hurried: Any = await refusal(ask(gateway, timeout=0.06))
    assert hurried.body["reason"] in ("deadline", "queue_timeout")
    for error in (late, hurried):
        assert error.response.headers["retry-after"] == "1"
        assert error.response.headers["x-should-retry"] == "false"
    double.gate.set()
    await first
    assert sum(shed(gateway, reason) for reason in ("queue_timeout", "deadline")) == sum(before) + 2


async def test_gateways_on_one_redis_count_together(
    start_gateway: StartGateway, start_double: StartDouble, redis_url: str
) -> None:
    double = await start_double()
    policy = limited(double, requests_per_minute=6)
    gateways = [await asyncio.to_thread(start_gateway, policy, redis_url=redis_url) for _ in range(2)]
    for gateway in gateways:
        await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["cache"] == "up"))  # noqa: B023
    body = json.dumps({"model": SMALL, "messages": unique(), "max_tokens": 2}).encode()
    answers = await asyncio.gather(
        *(asyncio.to_thread(gateways[number % 2].ask, "POST", "/v1/chat/completions", body) for number in range(12))
    )
    assert sorted(status for status, _, _ in answers) == [200] * 6 + [429] * 6
    assert not any("x-weir-limits" in headers for _, headers, _ in answers)
    assert sum(shed(gateway, "requests_per_minute") for gateway in gateways) == 6
