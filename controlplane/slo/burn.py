"""How fast a budget burns, and whether somebody must know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.slo.counts import Counts
from controlplane.slo.windows import WORKBOOK, BurnWindow


@dataclass(frozen=True, slots=True)
class MinimumEvents:
    """Below these, in the long window, a ratio is chance: with ten requests a day one error is 100 times the budget of 99.9 %."""

    total: int = 10
    bad: int = 3

    def reached(self, counts: Counts) -> bool:
        return counts.total >= self.total and counts.bad >= self.bad


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
        """Both windows exceed the threshold, on more events than chance explains. No data is no alert: it is another's."""
        return (
            self.enough_events
            and self.long is not None
            and self.short is not None
            and self.long > self.threshold
            and self.short > self.threshold
        )


def burn_rate(counts: Counts, target: float) -> float | None:
    """Error ratio over error budget; 1 burns exactly the budget. `target` is the share that must be good, 0 < target < 1."""
    ratio = counts.error_ratio
    return None if ratio is None else ratio / error_budget(target)


def highest_burn_rate(target: float) -> float:
    """What a total outage burns at: windows with a threshold as high, as with targets below 93 % and the workbook's first, never fire."""
    return 1 / error_budget(target)


def never_fires(threshold: float, target: float) -> bool:
    """Whether a window fires at no rate there is: not even a total outage exceeds its threshold."""
    return threshold >= highest_burn_rate(target)


def silent_windows(windows: Sequence[BurnWindow], target: float, period_s: int) -> list[BurnWindow]:
    """Those that can never fire. A window longer than the period is another fault."""
    return [one for one in windows if one.long_s <= period_s and never_fires(one.burn_rate(period_s), target)]


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
) -> list[Verdict]:
    """A verdict for each of `windows`, in their order. `counts` has those of each window's length in seconds."""
    return [
        Verdict(
            window=window,
            threshold=window.burn_rate(period_s),
            long=burn_rate(counts[window.long_s], target),
            short=burn_rate(counts[window.short_s], target),
            enough_events=minimum.reached(counts[window.long_s]),
        )
        for window in windows
    ]


def worst(verdicts: list[Verdict]) -> Verdict | None:
    """The firing verdict to tell people about: pages before tickets, then the fastest; None where none fires."""
    firing = [verdict for verdict in verdicts if verdict.fires]
    return min(firing, key=lambda one: (one.window.severity != "page", -one.threshold), default=None)
