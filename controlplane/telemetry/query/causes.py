"""Known causes in the pools that a question is about: what the store measured, put before the rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.explain import Cause, known_causes
from controlplane.telemetry.query.core.explain.causes.traffic import TELLING_MS
from controlplane.telemetry.query.core.explain.figures import Serving
from controlplane.telemetry.query.core.explain.observe import (
    CACHE_COUNTERS,
    COUNTERS,
    GAUGES,
    Sighting,
    observations,
    unmeasured,
)
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.slow import Slow


@dataclass(frozen=True, slots=True)
class Named:
    """A cause, in which pool, and how much it costs each of the requests that were looked at, on average."""

    pool: str
    cause: Cause
    cost_ms: float


@dataclass(frozen=True, slots=True)
class Causes:
    """`named`: the costliest first. `pools`: how many were looked at. `unmeasured`: what nobody measured of any of them, in words."""

    named: list[Named]
    pools: int
    unmeasured: list[str]


def known(question: Question, slow: Slow, serving: Mapping[str, Serving]) -> Causes:
    """Of all requests of the pools that are asked about, in the region's time where one is chosen; held against as long a time before."""
    window = slow.region.window if slow.region and slow.region.window else question.range.window
    seen = observations(sighting(window, question, serving))
    requests = max(1, sum(one.requests for one in seen))
    named = [
        Named(one.pool, cause, cause.impact_ms * one.requests / requests) for one in seen for cause in known_causes(one)
    ]
    ranked = sorted(named, key=lambda each: (-each.cause.failed, -each.cost_ms, each.pool))
    return Causes(ranked, len(seen), unmeasured(seen))


def sighting(window: Window, question: Question, serving: Mapping[str, Serving]) -> Sighting:
    """Everything that is asked beside each other; prompts only of pools whose requests wait at all, as it reads the most."""
    store = answers.store()
    before = Window(max(0, 2 * window.from_ns - window.to_ns), window.from_ns)
    gauges = store.beside(store.gauge_means, GAUGES, window)
    counters = store.beside(store.counter_growth, COUNTERS, window)
    counters_before = store.beside(store.counter_growth, CACHE_COUNTERS, before)
    earlier = store.beside(store.pool_figures, before)
    now = store.pool_figures(window, question.filters)
    waited: dict[str, list[int]] = {}
    for group in now:
        total = waited.setdefault(group.pool, [0, 0])
        total[0] += group.stage_ns.get("queue", 0)
        total[1] += group.requests
    # Short ones that wait TELLING_MS longer are at least a hundredth of a pool that is worth a word.
    waiting = [pool for pool, (queue_ns, requests) in waited.items() if queue_ns >= requests * TELLING_MS * 1e6 / 100]
    return Sighting(
        now=now,
        before=earlier.result(),
        attempts=store.attempt_figures(window, sorted({group.pool for group in now})),
        mixes=store.prompt_mixes(window, waiting),
        gauges=gauges.result(),
        counters=counters.result(),
        counters_before=counters_before.result(),
        serving=serving,
    )
