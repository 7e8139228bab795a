"""An objective's error budget over its period: how much is left, and how long it lasts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.slo.core.burn import error_budget
from controlplane.slo.core.counts import Counts


@dataclass(frozen=True, slots=True)
class Budget:
    """In events and as shares of what was allowed. `left_share` is below 0 once more than the budget is gone."""

    allowed: float  # bad events that the target permits among those counted
    bad: int
    left_share: float  # 1 untouched, 0 gone

    @property
    def left(self) -> float:
        """Bad events that may still come, among as many as were counted."""
        return self.allowed - self.bad

    def lasts_s(self, burn_rate: float | None, period_s: int, elapsed_s: float | None = None) -> float | None:
        """Seconds until it is gone at `burn_rate`; 0 when it is, infinity when it never will be, None when that is not known.

        A rate of 1 burns a whole budget in `period_s`, so what is left of a whole period lasts `left_share` of it over the rate.
        Of a period of which only `elapsed_s` have passed (or were recorded), the share is of what these allow, and each
        second at even traffic allows as much again: with e elapsed, the share l is gone after l·e / (rate - 1).
        """
        if self.left_share <= 0:
            return 0.0
        if burn_rate is None:
            return None
        if burn_rate <= 0:
            return math.inf
        passed_s = period_s if elapsed_s is None else min(elapsed_s, period_s)
        to_come_s = period_s - passed_s
        left_s = self.left_share * passed_s  # of burning at a rate of 1
        if burn_rate > 1 and left_s <= to_come_s * (burn_rate - 1):
            return left_s / (burn_rate - 1)
        return to_come_s + (left_s - to_come_s * (burn_rate - 1)) / burn_rate


def budget(counts: Counts, target: float) -> Budget:
    """Of the events of the period so far. Nothing counted leaves it untouched."""
    allowed = error_budget(target) * counts.total
    return Budget(allowed, counts.bad, 1.0 if counts.total == 0 else 1 - counts.bad / allowed)


def timeslices(slices: Iterable[Counts], slice_target: float) -> Counts:
    """Slices as events: one is good when at least `slice_target` (0..1) of its events were. An empty one is not counted.

    OpenSLO's Timeslices: a minute of total outage weighs as much at night as at noon.
    """
    if not 0 < slice_target <= 1:
        raise ValueError(f"slice_target={slice_target} is not above 0 and at most 1: use 0.95 for 95 %")
    judged = [counts.good >= slice_target * counts.total for counts in slices if counts.total]
    return Counts(bad=judged.count(False), total=len(judged))
