"""Applies the rules for known causes to what the store measured of the pools that a question is about."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.explain.causes import known_causes
from controlplane.telemetry.explain.causes.cause import Cause
from controlplane.telemetry.explain.causes.traffic import NOTABLE_MS
from controlplane.telemetry.explain.figures import Serving
from controlplane.telemetry.explain.observe import COUNTERS, GAUGES, Measurements, observations, unmeasured
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.slow import Slow


@dataclass(frozen=True, slots=True)
class PoolCause:
    """A cause in a pool. `cost_ms` is what it costs each of all the requests considered, on average."""

    pool: str
    cause: Cause
    cost_ms: float


@dataclass(frozen=True, slots=True)
class Causes:
    """`named`: the costliest first. `pools`: how many were considered. `unmeasured`: what was measured of none of them, in words.
    `one_in`: counts are of a sample of one request in so many."""

    named: list[PoolCause]
    pools: int
    unmeasured: list[str]
    one_in: int = 1


def causes_of(question: Question, slow: Slow, serving: Mapping[str, Serving], sample: bool = False) -> Causes:
    """The known causes in the pools of the question, over all their requests: in the region's time, or else the question's.

    They are compared with the time of the same length before it. `sample`: where there are too many requests, some are read.
    """
    window = slow.region.window if slow.region and slow.region.window else question.range.window
    one_in = answers.store().explain.one_in(window) if sample else 1
    seen = observations(_measurements(window, question, serving, one_in))
    requests = max(1, sum(pool.requests for pool in seen))
    named = [
        PoolCause(pool.pool, cause, cause.impact_ms * pool.requests / requests)
        for pool in seen
        for cause in known_causes(pool)
    ]
    named.sort(key=lambda each: (-each.cause.failed, -each.cost_ms, each.pool))
    return Causes(named, len(seen), unmeasured(seen), one_in)


def _measurements(window: Window, question: Question, serving: Mapping[str, Serving], one_in: int) -> Measurements:
    """Reads all figures, several at a time. Prompt mixes read the most, so only pools whose requests wait have them."""
    store = answers.store()
    before = Window(max(0, 2 * window.from_ns - window.to_ns), window.from_ns)
    gauges = store.submit_query(store.causes.gauge_means, GAUGES, window)
    counters = store.submit_query(store.causes.counter_growth, COUNTERS, window)
    earlier = store.submit_query(store.causes.pool_figures, before, level=one_in)
    now = store.causes.pool_figures(window, question.filters, one_in)
    waited: dict[str, list[int]] = {}
    for group in now:
        total = waited.setdefault(group.pool, [0, 0])
        total[0] += group.stage_ns.get("queue", 0)
        total[1] += group.requests
    # A pool that `long_prompts_block_short` names has at least one short prompt in a hundred that waits NOTABLE_MS longer.
    waiting = [pool for pool, (queue_ns, requests) in waited.items() if queue_ns >= requests * NOTABLE_MS * 1e6 / 100]
    attempts = store.submit_query(
        store.causes.attempt_figures, window, sorted({group.pool for group in now}), level=one_in
    )
    return Measurements(
        now=now,
        mixes=store.causes.prompt_mixes(window, waiting, one_in),
        before=earlier.result(),
        attempts=attempts.result(),
        gauges=gauges.result(),
        counters=counters.result(),
        serving=serving,
    )
