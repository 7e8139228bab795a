"""Failures behind the gateway: the errors that clients get, and the recovery."""

import asyncio
import json
from typing import Any

import msgspec
import openai
import pytest

from deploy.local.process import Managed
from deploy.local.redis import Redis
from deploy.local.triton import Triton
from inference.contract.snapshot import Snapshot, Tier
from tests.support.gateway.process import (
    LARGE,
    SMALL,
    Serve,
    StartGateway,
    Tune,
    a_snapshot,
    unique,
    with_fresh_tenants,
    with_pool,
    with_timeouts,
)
from tests.support.gateway.triton_double import StartDouble
from tests.support.wait import eventually_async

LONG: dict[str, Any] = {"messages": [{"role": "user", "content": "Tell me about rivers"}], "temperature": 0.0}
"""Its answer has 33 tokens. One to another prompt may end after three."""


async def collect(client: openai.AsyncOpenAI, **options: Any) -> str:
    stream = await client.chat.completions.create(
        **{"model": SMALL, "messages": unique(), "max_tokens": 20, "stream": True, **options}
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def test_a_failure_mid_stream_is_raised_by_the_client(tune: Tune, start_gateway: StartGateway) -> None:
    triton = tune(fail_after_tokens="3", time_scale="10")
    gateway = start_gateway(with_pool(a_snapshot(triton.grpc), SMALL, keep_error_texts=True))
    seen = []
    with pytest.raises(openai.APIError) as caught:
        async for chunk in await gateway.client().chat.completions.create(model=SMALL, stream=True, **LONG):
            seen.append(chunk)
    assert len(seen) == 4  # the role, and three tokens
    assert caught.value.code == "model_error"
    with pytest.raises(openai.InternalServerError) as whole:
        await gateway.client().chat.completions.create(model=SMALL, **LONG)
    assert (whole.value.status_code, whole.value.code) == (502, "model_error")
    for error in (caught.value, whole.value):
        assert "fail_after_tokens" not in str(error.body)  # the model server's own words
    assert "fail_after_tokens" in gateway.log.read_text()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stage_over_its_timeout_is_named(serve: Serve, tune: Tune, stream: bool) -> None:
    triton = tune(time_scale="20")
    gateway = serve(with_timeouts(a_snapshot(triton.grpc), first_token_ms=20))
    with pytest.raises(openai.InternalServerError) as caught:
        await gateway.client().chat.completions.create(model=SMALL, messages=unique(), stream=stream)
    assert (caught.value.status_code, caught.value.code, caught.value.param) == (504, "stage_timeout", "model")
    assert caught.value.response.headers["x-should-retry"] == "false"
    # Too long for the whole answer: tokens have been sent already, so the error comes in the stream.
    gateway.obey(with_timeouts(with_timeouts(a_snapshot(triton.grpc), first_token_ms=20_000), model_ms=1_000))
    with pytest.raises(openai.APIError) as late:
        await collect(gateway.client(), max_tokens=500, **LONG)
    assert (late.value.code, late.value.param) == ("stage_timeout", "model")


async def test_the_clients_own_deadline_is_kept(serve: Serve, tune: Tune) -> None:
    gateway = serve(a_snapshot(tune(time_scale="100").grpc))
    for stream in (True, False):
        with pytest.raises(openai.InternalServerError) as caught:
            await gateway.client(timeout=0.6).chat.completions.create(model=SMALL, messages=unique(), stream=stream)
        assert (caught.value.status_code, caught.value.code) == (504, "deadline_exceeded")
        assert caught.value.param == "model"
        assert caught.value.response.headers["x-should-retry"] == "false"
    await eventually_async(lambda: asyncio.to_thread(gateway.idle))


async def test_a_silent_stream_is_kept_alive(start_gateway: StartGateway, tune: Tune) -> None:
    gateway = start_gateway(a_snapshot(tune(time_scale="20").grpc), keepalive_ms="20")
    assert await collect(gateway.client(), max_tokens=3)
    body = json.dumps({"model": SMALL, "messages": unique(), "max_tokens": 2, "stream": True}).encode()
    _, _, text = await asyncio.to_thread(gateway.ask, "POST", "/v1/chat/completions", body)
    assert text.startswith(": ")
    assert text.endswith("data: [DONE]\n\n")


async def test_a_tier_has_its_limits(serve: Serve, snapshot: Snapshot) -> None:
    tiers = (Tier("standard", requests_per_minute=3, tokens_per_minute=100_000), Tier("premium"))
    gateway = serve(with_fresh_tenants(msgspec.structs.replace(snapshot, tiers=tiers)))
    create = gateway.client().chat.completions.with_raw_response.create
    seen = [(await create(model=SMALL, messages=unique(), max_tokens=1)).headers for _ in range(3)]
    assert [headers["x-ratelimit-remaining-requests"] for headers in seen] == ["2", "1", "0"]
    assert seen[0]["x-ratelimit-limit-tokens"] == "100000"
    assert int(seen[2]["x-ratelimit-remaining-tokens"]) < 100_000
    with pytest.raises(openai.RateLimitError) as caught:
        await create(model=SMALL, messages=unique())
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.body == {
        "message": caught.value.body["message"],
        "type": "requests",
        "param": None,
        "code": "rate_limit_exceeded",
        "reason": "requests_per_minute",
        "scope": "tenant",
        "limit": 3,
    }
    assert caught.value.response.headers["x-ratelimit-remaining-requests"] == "0"
    assert caught.value.response.headers["x-weir-limits"] == "local", "this gateway has no Redis"
    shed = gateway.metric("weir_gateway_shed_total", reason="requests_per_minute", tier="standard")
    assert shed >= 1
    assert 0 < int(caught.value.response.headers["retry-after-ms"]) <= 60_500


async def test_killing_redis_under_load_fails_nobody(
    start_gateway: StartGateway, snapshot: Snapshot, own_redis: tuple[Redis, Managed]
) -> None:
    server, process = own_redis
    gateway = start_gateway(snapshot, redis_url=server.url)
    stop = asyncio.Event()
    answered = 0

    async def user() -> None:
        nonlocal answered
        async with gateway.client() as client:
            while not stop.is_set():
                assert await collect(client, max_tokens=3, temperature=0)
                answered += 1

    users = [asyncio.ensure_future(user()) for _ in range(8)]
    for _ in range(2):
        before = answered
        await eventually_async(lambda: answered > before + 20)  # noqa: B023
        await asyncio.to_thread(process.kill)
        await eventually_async(lambda: answered > before + 60)  # noqa: B023
        await asyncio.to_thread(lambda: process.start().wait_ready())
        await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["cache"] == "up"))
    stop.set()
    await asyncio.gather(*users)  # raises the error of any of them
    assert gateway.metric("weir_gateway_requests_total", cache="skipped") > 0


async def test_killing_a_triton_under_load_fails_only_what_it_was_answering(
    serve: Serve, session_triton: Triton, own_triton: tuple[Triton, Managed]
) -> None:
    doomed, process = own_triton
    gateway = await asyncio.to_thread(serve, a_snapshot(session_triton.grpc, doomed.grpc))
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == 2))
    stop = asyncio.Event()
    answered, failed = 0, []
    noticed = asyncio.Event()

    async def user() -> None:
        nonlocal answered
        async with gateway.client() as client:
            while not stop.is_set():
                late = noticed.is_set()
                try:
                    assert await collect(client, max_tokens=10)
                    answered += 1
                except openai.APIError as error:
                    failed.append((late, error.code))

    users = [asyncio.ensure_future(user()) for _ in range(8)]
    await eventually_async(lambda: answered > 20)
    await asyncio.to_thread(process.kill)
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == 1))
    noticed.set()
    mark = answered
    await eventually_async(lambda: answered > mark + 40)
    assert [code for late, code in failed if late] == []
    assert {code for _, code in failed} <= {"service_unavailable"}
    assert len(failed) <= 8
    await asyncio.to_thread(lambda: process.start().wait_ready())
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == 2))
    mark = len(failed)
    before = answered
    await eventually_async(lambda: answered > before + 20)
    stop.set()
    await asyncio.gather(*users)
    assert len(failed) == mark


async def test_with_every_replica_down_it_says_when_to_come_back(serve: Serve, start_double: StartDouble) -> None:
    double = await start_double()
    gateway = await asyncio.to_thread(serve, a_snapshot(double.address))
    assert await collect(gateway.client(), max_tokens=2)
    await double.stop()
    for _ in range(2):
        with pytest.raises(openai.InternalServerError) as caught:
            await gateway.client().chat.completions.create(model=SMALL, messages=unique())
        assert (caught.value.status_code, caught.value.code) == (503, "service_unavailable")
        assert caught.value.body["reason"] == "no_replica"
        assert caught.value.response.headers["retry-after"] == "1"
    # The process stays in its balancer, and the body reports that no replica is up.
    await eventually_async(
        lambda: asyncio.to_thread(lambda: not any(p["ready"] for p in gateway.ready()["pools"].values()))
    )
    status, text = gateway.get("/readyz", key="")
    assert (status, json.loads(text)["status"]) == (200, "ready")
    assert json.loads(text)["degraded"] == f"no replica is up in pool {LARGE}, {SMALL}"
    assert gateway.metric("weir_gateway_pool_replicas_up", pool=SMALL) == 0
    await double.start()
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] == 1))
    assert await collect(gateway.client(), max_tokens=2)
