"""A burst of generated requests, and what became of them by tier."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from math import ceil

from deploy.local.traffic.client import Outcome, Settings, connected
from deploy.local.traffic.questions import TENANTS, questions

SAID_EVERY_S = 10.0
MAX_IN_FLIGHT = 500
TIERS = {"gateway-key-premium": "premium", "gateway-key": "standard", "gateway-key-batch": "batch"}


async def burst(
    settings: Settings,
    rate_rps: float,
    duration_s: float,
    model: str | None = None,
    say: Callable[[str], object] = partial(print, flush=True),  # noqa: B008  (immutable)
) -> list[Outcome]:
    """Send `rate_rps` requests per second on average, at random times, for `duration_s`, and say what became of them."""
    chance = random.Random()  # noqa: S311  (no secret)
    endless = questions(chance, {name: TENANTS[name] for name in settings.keys})
    wanted = (question for question in endless if model in (None, question.model))
    tasks: list[asyncio.Task[Outcome]] = []
    say(f"sending {rate_rps:g} requests/s for {duration_s:g} s to {settings.gateway_url}")
    async with connected(settings) as client:
        begun_s = time.monotonic()
        next_said = (begun_s + SAID_EVERY_S * number for number in count(1))
        say_at_s, due_s = next(next_said), begun_s
        while (due_s := due_s + chance.expovariate(rate_rps)) < begun_s + duration_s:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            if sum(not task.done() for task in tasks[-MAX_IN_FLIGHT:]) < MAX_IN_FLIGHT:
                tasks.append(asyncio.create_task(client.send(next(wanted))))
            if due_s > say_at_s:
                say_at_s = next(next_said)
                say(_line(time.monotonic() - begun_s, tasks))
        outcomes = list(await asyncio.gather(*tasks))
    say(table(outcomes))
    return outcomes


def _line(elapsed_s: float, tasks: Sequence[asyncio.Task[Outcome]]) -> str:
    over = [task.result() for task in tasks if task.done()]
    return (
        f"{elapsed_s:4.0f} s: {len(tasks)} sent, {len(tasks) - len(over)} in flight, {sum(each.answered for each in over)} answered, "
        f"{sum(bool(each.degraded) for each in over)} degraded, {sum(each.refused for each in over)} refused"
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each tier. Clients that left early are not counted; the p95 is that of answered streams."""
    lines = ["tier        sent  answered  degraded  refused  failed  stream begins p95"]
    for key_file, tier in TIERS.items():
        own = [each for each in outcomes if each.key_file == key_file and not each.has_left]
        answered, refused = sum(each.answered for each in own), sum(each.refused for each in own)
        first_s = sorted(each.first_s for each in own if each.answered and each.first_s is not None)
        p95 = f"{first_s[ceil(0.95 * len(first_s)) - 1]:.2f} s" if first_s else "none"
        degraded = sum(bool(each.degraded) for each in own)
        lines.append(
            f"{tier:<9} {len(own):>6} {answered:>9} {degraded:>9} {refused:>8} {len(own) - answered - refused:>7}  {p95:>17}"
        )
    return "\n".join(lines)
