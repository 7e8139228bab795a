"""How exact limits are that four gateways count together, and what a limit costs a request."""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import aiohttp

from inference.contract.snapshot import Tier
from tests.bench.figures import Figure, say
from tests.bench.limits.gateways import Answers, send, snapshot, until_ready
from tests.bench.processes import BenchError, start_gateway, start_redis
from tests.support.gateway.triton_double import TritonDouble

GATEWAYS, CONNECTIONS = 4, 16  # of each gateway
REQUESTS_PER_MINUTE, TOKENS_PER_MINUTE, IN_FLIGHT = 1_500, 40_000, 40
TIERS = (
    Tier("none"),
    Tier("requests", requests_per_minute=REQUESTS_PER_MINUTE),
    Tier("tokens", tokens_per_minute=TOKENS_PER_MINUTE),
    Tier("places", max_in_flight=IN_FLIGHT),
    Tier("wide", requests_per_minute=10_000_000, tokens_per_minute=1_000_000_000, max_in_flight=10_000),
)
_IN_A_MINUTE_S = 55.0
_COST_REQUESTS = 400


async def measure(folder: Path, stack: ExitStack) -> list[Figure]:
    double = await TritonDouble().start()
    try:
        env = {"WEIR_REDIS_URL": start_redis(stack, folder).url}
        policy = snapshot(double.address, TIERS)
        ports = [start_gateway(stack, f"gateway-{n}", policy, folder, env)[0] for n in range(GATEWAYS)]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            for port in ports:
                await until_ready(session, port, "up")
            return await _figures(session, ports, double)
    finally:
        await double.stop()


async def _figures(session: aiohttp.ClientSession, ports: list[int], double: TritonDouble) -> list[Figure]:
    requests = await _refused_often(session, ports, "requests")
    tokens = await _refused_often(session, ports, "tokens")
    double.answer_s, double.most_at_once = 0.1, 0
    places = await _load(session, ports, "places", lambda answers: sum(answers.statuses.values()) > 20 * IN_FLIGHT)
    double.answer_s = 0.0
    if not places.reasons.get("max_in_flight"):
        raise BenchError(f"no request was refused for those in flight: {places}")
    say(f"let in {requests.let_in} requests, {tokens.tokens} tokens, {double.most_at_once} in flight")
    cost = await _cost(session, ports[0])
    return [
        Figure("limits.requests_error", abs(requests.let_in / REQUESTS_PER_MINUTE - 1), "ratio", "the limit"),
        Figure("limits.tokens_error", abs(tokens.tokens / TOKENS_PER_MINUTE - 1), "ratio", "the limit"),
        Figure("limits.in_flight_error", abs(double.most_at_once / IN_FLIGHT - 1), "ratio", "the limit"),
        Figure("limits.p50_ratio", cost, "ratio", "a request without limits"),
    ]


async def _refused_often(session: aiohttp.ClientSession, ports: list[int], key: str) -> Answers:
    """Send until refusals are as many as a quarter of what was let in. Raises BenchError if that takes a minute."""
    answers = await _load(
        session, ports, key, lambda answers: answers.let_in > 100 and answers.statuses.get(429, 0) > answers.let_in / 4
    )
    if answers.seconds > _IN_A_MINUTE_S:
        raise BenchError(f"this machine takes {answers.seconds:.0f} s for what has to be within a minute")
    if set(answers.statuses) - {200, 429}:
        raise BenchError(f"other answers than 200 and 429: {answers}")
    return answers


async def _load(
    session: aiohttp.ClientSession, ports: list[int], key: str, enough: Callable[[Answers], bool]
) -> Answers:
    """Keep `CONNECTIONS` requests in flight at each gateway until it is enough."""
    answers = Answers()
    start_s = time.monotonic()

    async def user(port: int) -> None:
        while not enough(answers):
            await send(session, port, key, answers)

    await asyncio.gather(*(user(port) for port in ports for _ in range(CONNECTIONS)))
    answers.seconds = time.monotonic() - start_s
    return answers


async def _cost(session: aiohttp.ClientSession, port: int) -> float:
    """The median time of a request with all limits, over that of one without, taken in turns."""
    times: dict[str, list[float]] = {"none": [], "wide": []}
    for number in range(_COST_REQUESTS):
        for key in ("none", "wide") if number % 2 else ("wide", "none"):
            start_s = time.perf_counter()
            await send(session, port, key, Answers())
            times[key].append(time.perf_counter() - start_s)
    return median(times["wide"]) / median(times["none"])
