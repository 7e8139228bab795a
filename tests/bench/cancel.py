"""How long Triton goes on computing for a client that has gone: from the client's close to the model's own count of it.

Read from Triton's metrics page, which costs one to three milliseconds a look: the figures hold that too.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from deploy.local.ports import free_ports
from deploy.local.process import Managed
from deploy.local.triton import Triton, triton
from tests.bench.figures import Figure, say
from tests.bench.processes import BenchError
from tests.support.gateway.process import SMALL, Gateway, gateway_command, small_only, with_pool
from tests.support.gateway.sockets import send
from tests.support.gateway.triton_client import triton_metric
from tests.support.servers.triton import load

ROUNDS = 20
AIM = "100 ms"


def run() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-cancel-")))
        grpc, http, metrics = free_ports(3)
        server = triton((grpc, http, metrics), models=("chat_small",))
        _start(stack, Managed(server.command, folder / "triton.log"))
        load(server, "chat_small", time_scale="30")
        command, port, path = gateway_command(folder, small_only(server))
        log = folder / "gateway.log"
        gateway = Gateway(port, path, _start(stack, Managed(command, log)), log)
        cases = {
            "before_first_token": partial(_close_one, gateway, server, stream=True, wait_for_token=False),
            "mid_stream": partial(_close_one, gateway, server, stream=True, wait_for_token=True),
            "not_streaming": partial(_close_one, gateway, server, stream=False, wait_for_token=True),
        }
        for name, close_one in cases.items():
            say(f"cancel: {name}, {ROUNDS} rounds")
            yield Figure(f"cancel.{name}_max_ms", max(_timed(close_one, server) for _ in range(ROUNDS)), "ms", AIM)
        gateway.obey(with_pool(small_only(server), SMALL, max_concurrency=1))
        yield Figure("cancel.queued_in_gateway_max_ms", max(_queued(gateway) for _ in range(ROUNDS)), "ms", AIM)


def _start(stack: ExitStack, part: Managed) -> Managed:
    stack.callback(part.stop)
    part.start()
    part.wait_ready()
    return part


def _until(true: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not come within {timeout_s:.0f} s")


def _close_one(gateway: Gateway, server: Triton, *, stream: bool, wait_for_token: bool) -> int:
    """Send a request and leave it; when that was, by `perf_counter_ns`."""
    before = triton_metric(server, "weir_model_tokens_total", "chat_small")
    connection = send(gateway, SMALL, stream=stream)
    if not wait_for_token:
        _until(lambda: gateway.metric("weir_gateway_replica_in_flight") == 1, "the request at the model")
        time.sleep(0.2)  # Triton shows no prefill under way: a request just arrived is given a moment to begin
    elif stream:
        connection.recv(65536)
    else:
        _until(lambda: triton_metric(server, "weir_model_tokens_total", "chat_small") > before, "a token")
    left_ns = time.perf_counter_ns()
    connection.close()
    return left_ns


def _timed(close_one: Callable[[], int], server: Triton) -> float:
    """Milliseconds until the model has counted the cancellation."""
    cancelled = triton_metric(server, "weir_model_cancelled_total", "chat_small")
    start_ns = close_one()
    _until(lambda: triton_metric(server, "weir_model_cancelled_total", "chat_small") > cancelled, "the cancellation")
    return (time.perf_counter_ns() - start_ns) / 1e6


def _queued(gateway: Gateway) -> float:
    """Until a request that waits for a place is no longer counted; the one in front of it goes on."""
    first = send(gateway, SMALL, stream=True)
    _until(lambda: gateway.metric("weir_gateway_pool_in_flight", pool=SMALL) == 1, "a place taken")
    second = send(gateway, SMALL, stream=True)
    _until(lambda: gateway.metric("weir_gateway_pool_waiting", pool=SMALL) == 1, "a request waiting")
    second.close()
    start_ns = time.perf_counter_ns()
    _until(lambda: gateway.metric("weir_gateway_pool_waiting", pool=SMALL) == 0, "its leaving the queue")
    took_ms = (time.perf_counter_ns() - start_ns) / 1e6
    first.close()
    _until(gateway.idle, "an idle gateway")
    return took_ms
