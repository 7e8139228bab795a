"""When a client leaves, its inference in Triton is cancelled, and nothing stays in flight."""

import asyncio
import json
import time
from collections.abc import Callable

import msgspec
import pytest

from deploy.local.ports import LOOPBACK
from deploy.local.triton import Triton
from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import KEY, SMALL, Gateway, Serve, small_only, unique, with_pool
from tests.support.gateway.sockets import send
from tests.support.gateway.triton_client import triton_metric
from tests.support.wait import eventually, eventually_async


def stopping(triton: Triton, number: int) -> Callable[[], bool]:
    """Whether Triton's model has, since now, stopped computing `number` sequences because they were cancelled."""
    before = triton_metric(triton, "weir_model_cancelled_total", "chat_small")
    return lambda: triton_metric(triton, "weir_model_cancelled_total", "chat_small") == before + number


def at_the_model(gateway: Gateway) -> None:
    """Wait until the request is computed. Triton does not show a prefill, so this waits a moment longer."""
    eventually(lambda: gateway.metric("weir_gateway_replica_in_flight") == 1)
    time.sleep(0.2)


@pytest.mark.parametrize("stream", [True, False])
def test_before_the_first_token(slow_gateway: Gateway, slow_triton: Triton, stream: bool) -> None:
    stopped, cancelled = (
        stopping(slow_triton, 1),
        slow_gateway.metric("weir_gateway_requests_total", error_stage="model"),
    )
    connection = send(slow_gateway, SMALL, stream=stream)
    at_the_model(slow_gateway)
    connection.close()
    eventually(stopped)
    eventually(slow_gateway.idle)
    assert slow_gateway.metric("weir_gateway_requests_total", status="cancelled", error_stage="model") == cancelled + 1


def test_mid_stream(slow_gateway: Gateway, slow_triton: Triton) -> None:
    stopped = stopping(slow_triton, 1)
    connection = send(slow_gateway, SMALL, stream=True)
    assert b"data: " in connection.recv(65536)
    connection.close()
    eventually(stopped)
    eventually(slow_gateway.idle)


def test_while_queued_in_the_gateway(slow_gateway: Gateway, slow_triton: Triton) -> None:
    stopped = stopping(slow_triton, 1)
    slow_gateway.obey(with_pool(small_only(slow_triton), SMALL, max_concurrency=1))
    first = send(slow_gateway, SMALL, stream=True)
    eventually(lambda: slow_gateway.metric("weir_gateway_pool_in_flight", pool=SMALL) == 1)
    second = send(slow_gateway, SMALL, stream=True)
    eventually(lambda: slow_gateway.metric("weir_gateway_pool_waiting", pool=SMALL) == 1)
    second.close()
    eventually(lambda: slow_gateway.metric("weir_gateway_pool_waiting", pool=SMALL) == 0)
    assert slow_gateway.metric("weir_gateway_requests_total", status="cancelled", error_stage="queue") == 1
    assert b"data: " in first.recv(65536)  # the one in front never noticed
    first.close()
    eventually(stopped)
    eventually(slow_gateway.idle)
    slow_gateway.obey(msgspec.structs.replace(small_only(slow_triton), version=3))


def test_while_queued_in_triton(slow_gateway: Gateway, slow_triton: Triton) -> None:
    def pending() -> float:
        return triton_metric(slow_triton, "nv_inference_pending_request_count", "chat_small")

    computed = [send(slow_gateway, SMALL, stream=True) for _ in range(16)]
    for connection in computed[:5]:  # not all of them: the last may find no room for a whole batch
        assert b"data: " in connection.recv(65536)
    queued = [send(slow_gateway, SMALL, stream=True) for _ in range(24)]
    eventually(lambda: slow_gateway.metric("weir_gateway_replica_in_flight") == 40)
    eventually(lambda: pending() > 0)
    for connection in queued:
        connection.close()
    eventually(lambda: slow_gateway.metric("weir_gateway_replica_in_flight") == 16)
    for connection in computed:
        connection.close()
    eventually(slow_gateway.idle)
    eventually(lambda: pending() == 0)
    eventually(lambda: triton_metric(slow_triton, "weir_model_active_sequences", "chat_small") == 0)


async def test_a_thousand_aborts_leave_nothing_in_flight(serve_cached: Serve, snapshot: Snapshot) -> None:
    """Requests are cut after 0 to 100 ms, streaming and not, some of them coalesced."""
    gateway = await asyncio.to_thread(serve_cached, with_pool(snapshot, SMALL, max_concurrency=8))

    def cancelled() -> float:
        return gateway.metric("weir_gateway_requests_total", status="cancelled")

    before = cancelled()

    async def abort(number: int) -> None:
        _, writer = await asyncio.open_connection(LOOPBACK, gateway.port)
        messages = [{"role": "user", "content": f"abort {number // 3}"}]
        body = json.dumps(
            {"model": SMALL, "messages": messages, "stream": number % 2 == 0, "max_tokens": 200, "temperature": 0}
        ).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ncontent-length: %d\r\n\r\n"
            % (KEY.encode(), len(body))
            + body
        )
        await asyncio.sleep(number % 100 / 1000)
        writer.transport.abort()

    for start in range(0, 1000, 50):
        await asyncio.gather(*(abort(number) for number in range(start, start + 50)))
    await eventually_async(lambda: asyncio.to_thread(gateway.idle))
    assert cancelled() - before > 500
    await eventually_async(lambda: asyncio.to_thread(lambda: gateway.ready()["pools"][SMALL]["ready"] > 0))
    answer = await gateway.client().chat.completions.create(model=SMALL, messages=unique(), max_tokens=2)
    assert answer.choices[0].message.content
