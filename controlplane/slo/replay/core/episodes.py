"""Makes incidents and pages of verdicts over time, with how early each page came."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from controlplane.slo.core.budget import Budget
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.windows import BurnWindow, Severity
from controlplane.slo.replay.core.history import History
from controlplane.slo.replay.core.judge import Bools, Floats, Judged, judged


@dataclass(frozen=True, slots=True)
class Page:
    """The time in which page windows fire without a break. Times are s since the epoch."""

    opened_s: int
    closed_s: int | None  # None: still open where history ends
    window: BurnWindow  # the fastest that fires at the opening
    rate: float  # burn rate over the long window at the opening
    left_share: float  # of the budget at the opening
    lasts_s: float  # until the budget would be used up at that rate; 0 if it is
    exhausted_s: int | None  # when the budget was used up, at or after the opening; None: never


@dataclass(frozen=True, slots=True)
class Episode:
    """One incident: the time in which any window fires without a break."""

    severity: Severity
    opened_s: int
    closed_s: int | None
    windows: tuple[int, ...]  # indices of the objective's windows that fired in it
    pages: tuple[Page, ...]
    worst_rate: float  # the highest burn rate of a window that fires

    def length_s(self, end_s: int) -> int:
        return (self.closed_s or end_s) - self.opened_s


@dataclass(frozen=True, eq=False)
class Replay:
    """The incidents and pages of an objective between `from_s` and `to_s`."""

    objective: Objective
    history: History
    judged: Judged
    episodes: tuple[Episode, ...]

    @property
    def from_s(self) -> int:
        return min(max(self.history.since_s, self.history.judged_from_s), self.history.end_s)

    @property
    def to_s(self) -> int:
        return self.history.end_s

    @property
    def pages(self) -> list[Page]:
        return [page for episode in self.episodes for page in episode.pages]

    @property
    def tickets(self) -> list[Episode]:
        """Incidents that never paged."""
        return [episode for episode in self.episodes if not episode.pages]

    @property
    def paged_s(self) -> int:
        """How long pages were open in total, s."""
        return sum((page.closed_s or self.to_s) - page.opened_s for page in self.pages)

    @property
    def left_share(self) -> float:
        """The share of the budget left at the end."""
        return float(self.judged.left_share[-1]) if self.history.steps else 1.0

    @property
    def exhausted_s(self) -> int | None:
        """When the budget was first used up."""
        step = _first(self.judged.left_share[self.history.first :] <= 0)
        return None if step is None else self.history.at_s(self.history.first + step)

    @property
    def warning_s(self) -> int | None:
        """From the first page until the budget was used up, below 0 where the page came later; None without one of them."""
        exhausted_s, pages = self.exhausted_s, self.pages
        return None if exhausted_s is None or not pages else exhausted_s - pages[0].opened_s


def replay(history: History, objective: Objective) -> Replay:
    """Raises ValueError where the objective cannot be judged."""
    verdicts = judged(history, objective)
    page = verdicts.any_of("page", history.steps)
    firing = page | verdicts.any_of("ticket", history.steps)
    exhausted = np.flatnonzero(verdicts.left_share <= 0)
    pages = [_page(history, verdicts, exhausted, opened, closed) for opened, closed in _runs(page, history.first)]
    episodes = tuple(
        _episode(history, verdicts, pages, opened, closed) for opened, closed in _runs(firing, history.first)
    )
    return Replay(objective, history, verdicts, episodes)


def _runs(fires: Bools, first: int) -> list[tuple[int, int | None]]:
    """(first step, step after the last or None where history ends in it) of each unbroken run, from `first` on."""
    shown = fires[first:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], shown]).astype(np.int8)))
    steps: list[int] = (edges + first).tolist()
    closed: list[int | None] = [*steps[1::2], *([None] if len(steps) % 2 else [])]
    return list(zip(steps[::2], closed, strict=True))


def _page(history: History, verdicts: Judged, exhausted: Any, opened: int, closed: int | None) -> Page:
    firing = [window for window in verdicts.windows if window.window.severity == "page" and window.fires[opened]]
    worst = max(firing, key=lambda window: float(window.threshold[opened]))
    rate, left = float(worst.long[opened]), float(verdicts.left_share[opened])
    at = int(np.searchsorted(exhausted, opened))
    lasts = Budget(0.0, 0, left).lasts_s(rate, int(verdicts.period_s[opened]), int(verdicts.elapsed_s[opened]))
    return Page(
        opened_s=history.at_s(opened),
        closed_s=None if closed is None else history.at_s(closed),
        window=worst.window,
        rate=rate,
        left_share=left,
        lasts_s=lasts if lasts is not None else 0.0,
        exhausted_s=history.at_s(int(exhausted[at])) if at < len(exhausted) else None,
    )


def _episode(history: History, verdicts: Judged, pages: list[Page], opened: int, closed: int | None) -> Episode:
    steps = slice(opened, history.steps if closed is None else closed)
    opened_s, closed_s = history.at_s(opened), None if closed is None else history.at_s(closed)
    inside = tuple(
        page for page in pages if page.opened_s >= opened_s and (closed_s is None or page.opened_s < closed_s)
    )
    fired = tuple(number for number, window in enumerate(verdicts.windows) if window.fires[steps].any())
    rates: list[Floats] = [
        verdicts.windows[number].long[steps][verdicts.windows[number].fires[steps]] for number in fired
    ]
    return Episode(
        severity="page" if inside else "ticket",
        opened_s=opened_s,
        closed_s=closed_s,
        windows=fired,
        pages=inside,
        worst_rate=max(float(rate.max()) for rate in rates),
    )


def _first(where: Bools) -> int | None:
    first = int(where.argmax()) if len(where) else 0
    return first if len(where) and where[first] else None
