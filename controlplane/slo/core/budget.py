"""An objective's error budget over its period: how much is left, and how long it lasts."""

import math
from dataclasses import dataclass

from controlplane.slo.core.burn import error_budget
from controlplane.slo.core.counts import Counts


@dataclass(frozen=True, slots=True)
class Budget:
    """In events and as a share of what is allowed. `left_share` is below 0 when more than the budget is used."""

    allowed: float  # bad events that the target permits among those counted
    bad: int
    left_share: float  # 1: unused, 0: used up

    def lasts_s(self, burn_rate: float | None, period_s: int, elapsed_s: float | None = None) -> float | None:
        """Seconds until the budget is used up at `burn_rate`: 0 if it is, infinity if it never will be, None if the rate is unknown.

        A rate of at most 1 never uses it up: each second allows as much as it uses, until old events leave the period or it begins anew.
        The rest of a whole period's budget lasts left_share · period_s / rate.
        If only `elapsed_s` of the period have passed (or were recorded), the share is of the budget of that time, and each
        further second at even traffic adds as much: with e elapsed, the share l is used up after l·e / (rate - 1).
        """
        if self.left_share <= 0:
            return 0.0
        if burn_rate is None:
            return None
        if burn_rate <= 1:
            return math.inf
        passed_s = period_s if elapsed_s is None else min(elapsed_s, period_s)
        to_come_s = period_s - passed_s
        left_s = self.left_share * passed_s  # at a rate of 1
        if left_s <= to_come_s * (burn_rate - 1):
            return left_s / (burn_rate - 1)
        return to_come_s + (left_s - to_come_s * (burn_rate - 1)) / burn_rate


def budget(counts: Counts, target: float) -> Budget:
    """The budget after the events of the period so far. Without events it is unused."""
    allowed = error_budget(target) * counts.total
    return Budget(allowed, counts.bad, 1.0 if counts.total == 0 else 1 - counts.bad / allowed)
