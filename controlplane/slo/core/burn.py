"""How fast a budget burns, and whether somebody must know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from controlplane.slo.core.counts import Counts
from controlplane.slo.core.windows import WORKBOOK, BurnWindow


@dataclass(frozen=True, slots=True)
class MinimumEvents:
    """Below so many requests in the long window a ratio is chance: with ten a day one error is 100 times the budget of 99.9 %."""

    total: int = 10
    bad: int = 3

    def reached(self, counts: Counts) -> bool:
        return bool(counts.total >= self.total and counts.bad >= self.bad)

    def enough(self, bad: npt.NDArray[np.int64], total: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """`reached`, of counts over time."""
        return (total >= self.total) & (bad >= self.bad)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one window says. `long` and `short` are burn rates; None where that window saw nothing."""

    window: BurnWindow
    threshold: float
    long: float | None
    short: float | None
    enough_events: bool

    @property
    def fires(self) -> bool:
        """See `fires`. No data is no alert: it is another's."""
        if self.long is None or self.short is None:
            return False
        return fires(self.long, self.short, self.threshold, self.enough_events)


B = TypeVar("B", bool, npt.NDArray[np.bool_])
F = TypeVar("F", float, npt.NDArray[np.float64])


def fires(long: F, short: F, threshold: F, enough_events: B) -> B:
    """Whether somebody must know: both windows' burn rates exceed the threshold, on more events than chance explains.

    Of numbers as the controller has them, and of arrays over time as the replay does.
    """
    firing: B = enough_events & (long > threshold) & (short > threshold)  # type: ignore[assignment]
    return firing


def burn_rate(counts: Counts, target: float) -> float | None:
    """Error ratio over error budget; 1 burns exactly the budget. `target` is the share that must be good, 0 < target < 1."""
    ratio = counts.error_ratio
    return None if ratio is None else ratio / error_budget(target)


def burn_rates(bad: npt.NDArray[np.int64], total: npt.NDArray[np.int64], target: float) -> npt.NDArray[np.float64]:
    """`burn_rate`, of counts over time; nan where there are no events."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, bad / total / error_budget(target), np.nan)


def highest_burn_rate(target: float) -> float:
    """What a total outage burns at: windows with a threshold as high, as with targets below 93 % and the workbook's first, never fire."""
    return 1 / error_budget(target)


def never_fires(threshold: float, target: float) -> bool:
    """Whether a window fires at no rate there is: not even a total outage exceeds its threshold."""
    return threshold >= highest_burn_rate(target)


def silent_windows(windows: Sequence[BurnWindow], target: float, period_s: int) -> list[BurnWindow]:
    """Those that can never fire. A window longer than the period is another fault."""
    return [
        window for window in windows if window.long_s <= period_s and never_fires(window.burn_rate(period_s), target)
    ]


def coarse_windows(windows: Sequence[BurnWindow], slice_s: int) -> list[BurnWindow]:
    """Those that are shorter than a slice: they say no more than the slice that runs."""
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
    """A verdict for each of `windows`, in their order. `counts` has those of each window's length in seconds.

    `requests`: what `minimum` is held against, of the long windows, where the events are slices of them.
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
    """The firing verdict to tell people about: pages before tickets, then the fastest; None where none fires."""
    firing = [verdict for verdict in verdicts if verdict.fires]
    return min(firing, key=lambda verdict: (verdict.window.severity != "page", -verdict.threshold), default=None)
