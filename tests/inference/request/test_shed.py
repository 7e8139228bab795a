"""What a request is answered that is refused so that others are served, and that it is counted."""

import asyncio
from typing import Any

import openai
import pytest

from inference.contract.snapshot import Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import (
    KEY,
    OTHER_KEY,
    SMALL,
    Gateway,
    Serve,
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


def limited(double: TritonDouble, **tier: int) -> Snapshot:
    """Tenant `alice`, in tier `standard` with these limits, has `KEY` and another one."""
    return with_fresh_tenants(
        a_snapshot(
            double.address,
            tiers=(Tier("standard", **tier), Tier("premium", priority=1)),
            tenants=(
                Tenant("alice", "standard", tuple(map(key_digest, (KEY, SECOND_KEY)))),
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
