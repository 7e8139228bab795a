"""Tokens are charged as they are used, however a request ends, and a better tier waits less."""

import asyncio
from typing import Any

import grpc
import openai
import pytest

from inference.contract.snapshot import CacheRule, Snapshot, Tier
from tests.support.gateway.process import (
    KEY,
    OTHER_KEY,
    SMALL,
    Gateway,
    Serve,
    a_snapshot,
    unique,
    with_fresh_tenants,
    with_model,
    with_pool,
    with_timeouts,
)
from tests.support.gateway.triton_double import StartDouble, TritonDouble
from tests.support.wait import eventually_async


def ask(gateway: Gateway, key: str = KEY, messages: Any = None, **options: Any) -> asyncio.Task[Any]:
    create = gateway.client(key, **options).chat.completions.create
    return asyncio.ensure_future(create(model=SMALL, messages=messages or unique()))


async def tokens_are_used_up(gateway: Gateway) -> bool:
    try:
        await ask(gateway)
    except openai.RateLimitError as error:
        assert error.code == "rate_limit_exceeded"
        assert error.type == "tokens"
        return True
    return False


def metered(double: TritonDouble) -> Snapshot:
    """One prompt of a tenant `standard` is more than its tokens of a minute. No other test has used them up."""
    return with_fresh_tenants(
        a_snapshot(double.address, tiers=(Tier("standard", tokens_per_minute=10), Tier("premium", priority=1)))
    )


@pytest.mark.parametrize("mute", [True, False])
@pytest.mark.parametrize("way", ["disconnect", "deadline", "timeout", "error"])
async def test_tokens_are_charged_whichever_way_a_request_ends(
    serve: Serve, start_double: StartDouble, way: str, mute: bool
) -> None:
    double = await start_double()
    policy = metered(double)
    if way == "timeout":
        policy = with_timeouts(policy, **{"first_token_ms" if mute else "model_ms": 200})
    gateway = await asyncio.to_thread(serve, policy)
    double.gate.clear()
    double.mute = mute
    double.error = grpc.StatusCode.INTERNAL if way == "error" else None
    request = ask(gateway, timeout=1 if way == "deadline" else 60)
    await eventually_async(lambda: double.inferences.total() == 1)
    if way == "disconnect":
        request.cancel()
        await eventually_async(lambda: asyncio.to_thread(gateway.idle))
    else:
        with pytest.raises(openai.InternalServerError):
            await request
    double.gate.set()
    assert await tokens_are_used_up(gateway)


async def test_the_prompt_is_charged_when_it_is_admitted(serve: Serve, start_double: StartDouble) -> None:
    double = await start_double()
    gateway = await asyncio.to_thread(serve, metered(double))
    double.gate.clear()
    double.mute = True
    request = ask(gateway)
    await eventually_async(lambda: double.at_once == 1)
    assert await tokens_are_used_up(gateway)
    double.gate.set()
    assert (await request).usage.completion_tokens == 2


async def test_a_request_that_was_never_admitted_is_free(serve: Serve, start_double: StartDouble) -> None:
    double = await start_double()
    policy = with_pool(metered(double), SMALL, max_concurrency=1, max_queue=0)
    gateway = await asyncio.to_thread(serve, policy)
    double.gate.clear()
    first = ask(gateway, OTHER_KEY)
    await eventually_async(lambda: double.at_once == 1)
    with pytest.raises(openai.RateLimitError) as full:
        await ask(gateway)
    assert full.value.code == "queue_full"
    double.gate.set()
    await first
    assert not await tokens_are_used_up(gateway)


async def test_a_better_tier_does_not_wait_with_a_worse_one_with_the_same_question(
    serve: Serve, start_double: StartDouble
) -> None:
    double = await start_double()
    policy = with_pool(a_snapshot(double.address), SMALL, max_concurrency=1)
    gateway = await asyncio.to_thread(serve, with_model(policy, SMALL, cache=CacheRule("always", scope="all")))
    double.gate.clear()
    first, messages = ask(gateway), unique()
    await eventually_async(lambda: double.at_once == 1)
    others = []
    for number, key in enumerate((KEY, OTHER_KEY, KEY), 2):
        others.append(ask(gateway, key, messages))
        await eventually_async(
            lambda: asyncio.to_thread(lambda: gateway.metric("weir_gateway_requests_in_flight") == number)  # noqa: B023
        )
    assert gateway.metric("weir_gateway_pool_waiting") == 2, "the last joins the better of the two"
    double.gate.set()
    await asyncio.gather(first, *others)
    assert double.priorities == [2, 1, 2]
