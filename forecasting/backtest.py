"""Rolling-origin backtest: what each candidate would have forecast in the past, from what was known then."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, gcd

import numpy as np

from forecasting.calendar import DAY_S
from forecasting.candidates.history import Candidate, History, Ints, targets
from forecasting.series import F64

WINDOW_S = 14 * DAY_S
HORIZONS = 8
"""A backtest covers so many horizons where history carries them: overlapping forecasts are no evidence of their own."""
MAX_ORIGINS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Backtest:
    """`expected[name]` and `actual` are origins × leads; NaN is a gap, or not over yet."""

    origins: Ints
    leads: Ints
    expected: Mapping[str, F64]
    actual: F64


def backtest(history: History, candidates: Mapping[str, Candidate], steps: int) -> Backtest:
    """Every candidate from evenly spread origins of the last WINDOW_S (HORIZONS, where that is longer), to a lead of `steps`."""
    origins, leads = origins_of(history, steps), leads_of(steps)
    actual = history.extended()[np.minimum(targets(origins, leads), history.steps + history.ahead - 1)]
    expected = {name: candidate(history, origins, leads) for name, candidate in candidates.items()}
    return Backtest(origins, leads, expected, actual)


def leads_of(steps: int) -> Ints:
    """The leads that are scored: the first, and each quarter of the horizon."""
    return np.unique([1, *(max(1, round(steps * quarter / 4)) for quarter in (1, 2, 3, 4))])


def origins_of(history: History, steps: int) -> Ints:
    """At most MAX_ORIGINS, the first after a quarter of the history. They fall on all times of the day."""
    step_s = history.series.step_s
    window = max(WINDOW_S // step_s, HORIZONS * steps)
    first = max(1, history.steps // 4, history.steps - window)
    stride = max(1, ceil((history.steps - first) / MAX_ORIGINS))
    while stride > 1 and gcd(stride, max(1, DAY_S // step_s)) > 1:
        stride += 1
    return np.arange(first, history.steps, stride, dtype=np.int64)
