"""Which load a benchmark of a replica tries next, how long it keeps it up, and what it has shown at the end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forecasting.capacity.assumptions import require
from forecasting.capacity.replica_capacity import MIN_BAD

TOLERANCE = 0.05
"""The search ends once the lowest load that lost the objective is at most so much above the highest that kept it."""
QUICK_PART = 4
"""While no load has lost the objective, a step has only a part of the requests: 1 in so many."""
MIN_QUICK = 20
MIN_WINDOW_S, WINDOW_THRESHOLDS = 10.0, 8.0
"""A queue that grows must have time to do so: a step is at least so long, and so many times the longest threshold."""
HALVINGS = 6
"""So often a first load that loses the objective is halved."""
MAX_RPS = 5_000.0


@dataclass(frozen=True, slots=True)
class BenchmarkStep:
    """A load as the replica carried it. Of `judged` requests `good` kept the objective; `quick` says that they were few."""

    requests_per_s: float
    judged: int
    good: int
    kept: bool
    quick: bool = False


@dataclass(frozen=True, slots=True)
class StepLength:
    """How many requests a step has. The first `warm_in` bring the replica to the load, and are not judged."""

    warm_in: int
    judged: int
    quick: bool

    def expected_s(self, requests_per_s: float) -> float:
        return (self.warm_in + self.judged) / requests_per_s


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The highest load that kept the objective; None where none did. `lower_bound`: no higher load was seen to lose it."""

    requests_per_s: float | None
    lower_bound: bool
    reason: str


def step_length(requests_per_s: float, target: float, threshold_s: float, quick: bool) -> StepLength:
    """So many requests that MIN_BAD bad ones were to be expected at the target (0..1), and so many that the step lasts long enough.

    A quick step has a part of them: it only finds the region that full steps then judge.
    """
    require("requests_per_s", requests_per_s, above=True)
    part = QUICK_PART if quick else 1
    needed = max(MIN_QUICK, math.ceil(MIN_BAD / max(1 - target, 1e-6) / part))
    window_s = max(MIN_WINDOW_S, WINDOW_THRESHOLDS * threshold_s) / (2 if quick else 1)
    return StepLength(
        warm_in=math.ceil(requests_per_s * min(max(1.0, threshold_s), window_s / 2)),
        judged=max(needed, math.ceil(requests_per_s * window_s)),
        quick=quick,
    )


def is_quick(steps: Sequence[BenchmarkStep], requests_per_s: float) -> bool:
    """Whether the next step at this load may be quick: nothing was lost yet, and it was not tried before."""
    return all(step.kept and step.requests_per_s != requests_per_s for step in steps)


def next_rate(steps: Sequence[BenchmarkStep], first_rps: float, most_rps: float = MAX_RPS) -> float | None:
    """The load of the next step in requests/s; None once the capacity is known as well as it will be.

    Loads double until one loses the objective, or halve until one keeps it; then the middle (geometric) of the bracket is tried, until
    its ends are within TOLERANCE. A load that only a quick step has kept is judged by a full one before it counts.
    """
    kept, lost = _bracket(steps)
    if kept is None:
        if lost is None:
            return min(first_rps, most_rps)
        return lost / 2 if lost / 2 >= first_rps / 2**HALVINGS * (1 - 1e-9) else None
    confirmed = not kept.quick
    if lost is None:
        if kept.requests_per_s < most_rps:
            return min(2 * kept.requests_per_s, most_rps)
        return None if confirmed else kept.requests_per_s
    if lost > kept.requests_per_s * (1 + TOLERANCE):
        return math.sqrt(kept.requests_per_s * lost)
    return None if confirmed else kept.requests_per_s


def steps_left(steps: Sequence[BenchmarkStep]) -> int:
    """About how many steps are still to come, at least 1."""
    kept, lost = _bracket(steps)
    halvings = math.ceil(math.log2(math.log(2) / math.log1p(TOLERANCE)))
    if kept is None or lost is None:
        return max(1, 3 - len(steps)) + halvings
    width = math.log(lost / kept.requests_per_s) / math.log1p(TOLERANCE)
    return max(1, math.ceil(math.log2(max(width, 1.0))) + kept.quick)


def conclusion(steps: Sequence[BenchmarkStep], target: float, complete: bool = True) -> Conclusion:
    """What the steps have shown; not `complete` where they were ended by a limit of time."""
    kept, lost = _bracket(steps)
    if kept is None:
        if not steps:
            return Conclusion(None, False, "No load was judged.")
        least = min(steps, key=lambda step: step.requests_per_s)
        share = least.good / least.judged if least.judged else 0.0
        return Conclusion(
            None,
            False,
            f"The objective was kept at no load: at {least.requests_per_s:.3g} requests/s {share:.1%} of {least.judged} requests "
            f"were good, and {target:.1%} must be.",
        )
    rate = kept.requests_per_s
    if lost is None:
        return Conclusion(rate, True, f"At least {rate:.3g} requests/s: no load was seen that loses the objective.")
    wide = lost > rate * (1 + TOLERANCE) * (1 + 1e-9) or kept.quick
    if wide and not complete:
        return Conclusion(
            rate, True, f"At least {rate:.3g} requests/s, and less than {lost:.3g}: the time did not suffice for more."
        )
    return Conclusion(rate, False, f"{rate:.3g} requests/s kept the objective, and {lost:.3g} lost it.")


def _bracket(steps: Sequence[BenchmarkStep]) -> tuple[BenchmarkStep | None, float | None]:
    """The highest load that was kept below all that were lost, and the lowest that was lost. Of two steps at a load the later counts."""
    newest = {step.requests_per_s: step for step in steps}
    lost = min((rate for rate, step in newest.items() if not step.kept), default=None)
    below = [step for rate, step in newest.items() if step.kept and (lost is None or rate < lost)]
    return max(below, key=lambda step: step.requests_per_s, default=None), lost
