"""Who waits behind whom, and who is served, where three tiers together want twice what a pool takes."""

import asyncio
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import aiohttp

from inference.contract.snapshot import Tier
from tests.bench.figures import Figure, percentile, say
from tests.bench.limits.gateways import Answers, send, snapshot, until_ready
from tests.bench.processes import BenchError, start_gateway
from tests.support.gateway.process import Receiver
from tests.support.gateway.triton_double import TritonDouble

REQUESTS, PLACES, ANSWER_S = 10_000, 32, 0.3
OVERLOAD = 2.0
TIERS = (Tier("1", priority=1), Tier("2", priority=2), Tier("3", priority=3))
_IN_TURN_NS = 20_000_000
"""A request that began to wait this shortly before another was served may have come after the place was given away."""

_SPANS_S = 30.0


class Wait(NamedTuple):
    tier: str
    start_ns: int
    end_ns: int
    served: bool


async def measure(folder: Path, stack: ExitStack) -> list[Figure]:
    double = await TritonDouble().start()
    receiver = await Receiver().start()
    try:
        double.answer_s = ANSWER_S
        policy = snapshot(double.address, TIERS, PLACES)
        port, _ = start_gateway(stack, "gateway", policy, folder, {"WEIR_OTLP_ENDPOINT": receiver.url})
        answers = {tier.name: Answers() for tier in TIERS}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await until_ready(session, port)
            await _load(session, port, answers)
        waits = await _waits(receiver)
    finally:
        await receiver.stop()
        await double.stop()
    return list(_figures(answers, waits))


async def _load(session: aiohttp.ClientSession, port: int, answers: dict[str, Answers]) -> None:
    """Requests of random tiers at random times, `OVERLOAD` times as many as the pool takes."""
    source, loop = random.Random(1), asyncio.get_running_loop()
    rate, at_s = OVERLOAD * PLACES / ANSWER_S, loop.time()
    sent = []
    for _ in range(REQUESTS):
        at_s += source.expovariate(rate)
        await asyncio.sleep(max(0.0, at_s - loop.time()))
        tier = source.choice(TIERS).name
        sent.append(asyncio.ensure_future(send(session, port, tier, answers[tier])))
    await asyncio.gather(*sent)


async def _waits(receiver: Receiver) -> list[Wait]:
    """How long each request waited for a place. Raises BenchError if spans are missing."""
    until_s = asyncio.get_running_loop().time() + _SPANS_S
    roots = 0
    while roots < REQUESTS:
        if asyncio.get_running_loop().time() > until_s:
            raise BenchError(f"of {REQUESTS} requests {roots} have spans")
        await asyncio.sleep(0.2)
        roots = sum("weir.request" in span.attributes for span in receiver.spans)
    tiers = {
        span.trace_id: span.attributes["weir.tier"] for span in receiver.spans if "weir.request" in span.attributes
    }
    served = {span.trace_id for span in receiver.spans if span.name == "model.infer"}
    return [
        Wait(tiers[span.trace_id], span.start_ns, span.end_ns, span.trace_id in served)
        for span in receiver.spans
        if span.name == "admission.wait"
    ]


def _figures(answers: dict[str, Answers], waits: list[Wait]) -> list[Figure]:
    best = [wait for wait in waits if wait.tier == "1"]
    behind = set()
    for place in (wait.end_ns for wait in waits if wait.tier == "3" and wait.served):
        behind |= {wait for wait in best if wait.start_ns + _IN_TURN_NS < place < wait.end_ns}
    say(f"answers by tier: { {tier: (a.statuses, a.reasons) for tier, a in answers.items()} }")
    served = Counter({tier: of.let_in for tier, of in answers.items()})
    refused = sum(number for status, number in answers["1"].statuses.items() if status != 200)
    waited_ns = [wait.end_ns - wait.start_ns for wait in best]
    return [
        Figure("limits.best_tier_behind_worst", len(behind), "requests"),
        Figure("limits.best_tier_refused", refused, "requests"),
        Figure("limits.best_tier_wait_p99_ms", percentile(waited_ns, 0.99) / 1e6, "ms"),
        Figure("limits.middle_tier_served", served["2"] / served.total(), "ratio", "all served"),
        Figure("limits.worst_tier_served", served["3"] / served.total(), "ratio", "all served"),
    ]
