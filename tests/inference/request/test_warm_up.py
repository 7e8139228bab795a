"""Warm-up requests to a real Triton, by a gateway as a user runs it: nothing counts them as users' requests."""

import asyncio
import json
import secrets

from deploy.local.triton import Triton
from inference.contract.snapshot import Endpoint, WarmUp
from inference.contract.stages import INTERNAL
from tests.support.gateway.process import SMALL, Receiver, StartGateway, small_only, unique, with_pool
from tests.support.wait import eventually_async


async def test_a_triton_is_warmed_up_before_it_gets_requests_and_nothing_counts_that(
    start_gateway: StartGateway, session_triton: Triton, receiver: Receiver
) -> None:
    replicas = tuple(Endpoint(f"r{number}", session_triton.grpc) for number in range(2))
    first = with_pool(small_only(session_triton), SMALL, endpoints=replicas[:1], warm_up=WarmUp(2, max_tokens=4))
    gateway = await asyncio.to_thread(lambda: start_gateway(first, otlp=receiver.url))

    def warmed(number: int) -> bool:
        return gateway.metric("weir_gateway_warm_ups_total", pool=SMALL, outcome="warmed") == number

    await eventually_async(lambda: asyncio.to_thread(warmed, 1))
    await asyncio.to_thread(gateway.obey, with_pool(first, SMALL, endpoints=replicas))
    await eventually_async(lambda: asyncio.to_thread(warmed, 2))
    signals = json.loads(gateway.get("/signals")[1])
    said = signals["pools"][SMALL]
    assert {name: (replica["up"], replica["warming"]) for name, replica in said["replicas"].items()} == {
        "r0": (True, False),
        "r1": (True, False),
    }
    assert (said["arrived"], said["input_tokens"], signals["requests"]) == (0, 0, 0)
    assert all(tier["arrived"] == 0 for tiers in signals["models"].values() for tier in tiers.values())
    assert gateway.metric("weir_gateway_warm_up_requests_total", pool=SMALL, outcome="answered") == 4
    assert gateway.metric("weir_gateway_warm_up_requests_total", outcome="failed") == 0
    trace_id = secrets.token_hex(16)
    headers = {"traceparent": f"00-{trace_id}-{'1' * 16}-01"}
    await gateway.client().chat.completions.create(model=SMALL, messages=unique(), max_tokens=4, extra_headers=headers)
    trace = await receiver.trace(trace_id)
    (root,) = (span for span in trace if "weir.request" in span.attributes)
    assert root.attributes.get("weir.cold_start", False) is False, "the warm-up had the cold start"
    own = [span for span in receiver.spans if span.attributes.get(INTERNAL)]
    assert [(span.name, span.attributes["weir.pool"]) for span in own] == [("warm_up", SMALL)] * 4
    assert all("weir.request" not in span.attributes for span in own)
    assert gateway.ready()["pools"][SMALL]["ready"] == 2
