"""Burn rates, and whether burn windows fire."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from controlplane.slo.core.counts import Counts
from controlplane.slo.core.windows import WORKBOOK, BurnWindow


@dataclass(frozen=True, slots=True)
class MinimumEvents:
    """The fewest requests in the long window on which a window fires: with ten a day, one error is 100 times the budget of 99.9 %."""

    total: int = 10
    bad: int = 3

    def reached(self, counts: Counts) -> bool:
        return bool(counts.total >= self.total and counts.bad >= self.bad)

    def enough(self, bad: npt.NDArray[np.int64], total: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """`reached` for arrays of counts over time."""
        return (total >= self.total) & (bad >= self.bad)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One burn window at one time. `long` and `short` are burn rates; None where the window has no events."""

    window: BurnWindow
    threshold: float
    long: float | None
    short: float | None
    enough_events: bool
    measured: bool = True  # whether most of the short window was

    @property
    def fires(self) -> bool:
        """Whether both burn rates exceed the threshold, on enough events. A window without events does not fire."""
        if self.long is None or self.short is None:
            return False
        return self.enough_events and self.long > self.threshold and self.short > self.threshold

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            **asdict(self.window),
            "threshold": self.threshold,
            "long": self.long,
            "short": self.short,
            "enough_events": self.enough_events,
            "fires": self.fires,
            "measured": self.measured,
        }


def burn_rate(counts: Counts, target: float) -> float | None:
    """Error ratio over error budget; 1 uses exactly the budget. None without events. `target` is the share that must be good."""
    ratio = counts.error_ratio
    return None if ratio is None else ratio / error_budget(target)


def burn_rates(bad: npt.NDArray[np.int64], total: npt.NDArray[np.int64], target: float) -> npt.NDArray[np.float64]:
    """`burn_rate` for arrays of counts over time; nan where there are no events."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, bad / total / error_budget(target), np.nan)


def highest_burn_rate(target: float) -> float:
    """The burn rate of a total outage. With a target below 93 % it does not exceed the threshold of the workbook's first window."""
    return 1 / error_budget(target)


def never_fires(threshold: float, target: float) -> bool:
    """Whether not even a total outage exceeds the threshold."""
    return threshold >= highest_burn_rate(target)


def silent_windows(windows: Sequence[BurnWindow], target: float, period_s: int) -> list[BurnWindow]:
    """The windows that can never fire, except those longer than the period: these are refused elsewhere."""
    return [
        window for window in windows if window.long_s <= period_s and never_fires(window.burn_rate(period_s), target)
    ]


def coarse_windows(windows: Sequence[BurnWindow], slice_s: int) -> list[BurnWindow]:
    """The windows that are shorter than a slice: they show only the current slice."""
    return [window for window in windows if window.short_s < slice_s]


def error_budget(target: float) -> float:
    """The share that may be bad. Raises ValueError."""
    if not 0 < target < 1:
        raise ValueError(f"target={target} is not between 0 and 1: use 0.999 for 99.9 %; 1 leaves no budget to burn")
    return 1 - target


def judge(
    counts: Mapping[int, Counts],
    target: float,
    period_s: int,
    windows: tuple[BurnWindow, ...] = WORKBOOK,
    minimum: MinimumEvents = MinimumEvents(),
    requests: Mapping[int, Counts] | None = None,
) -> list[Verdict]:
    """A verdict for each of `windows`, in their order. `counts` are by window length, s.

    `requests`: where the events are slices, the requests of the long windows, to which `minimum` applies.
    """
    return [
        Verdict(
            window=window,
            threshold=window.burn_rate(period_s),
            long=burn_rate(counts[window.long_s], target),
            short=burn_rate(counts[window.short_s], target),
            enough_events=minimum.reached((counts if requests is None else requests)[window.long_s]),
        )
        for window in windows
    ]


def worst(verdicts: list[Verdict]) -> Verdict | None:
    """The most urgent verdict that fires: pages before tickets, then the highest threshold; None where none fires."""
    firing = [verdict for verdict in verdicts if verdict.fires]
    return min(firing, key=lambda verdict: (verdict.window.severity != "page", -verdict.threshold), default=None)
