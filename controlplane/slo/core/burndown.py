"""Computes an objective's budget over time from hourly counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.slo.core.burn import error_budget
from controlplane.slo.core.objective import Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, Span, period_at

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
DAYS_BACK = (0, 1, 7)
MAX_POINTS = 800


@dataclass(frozen=True, slots=True)
class Point:
    """The budget left at the end of a step, and the events of the step."""

    start_s: int
    left_share: float | None  # 1: unused, 0: used up; None before the first event, and where it is not known
    bad: int
    total: int


@dataclass(frozen=True, slots=True)
class Day:
    """The events of 24 hours that ended so many days ago. `counted` is None where not all of them are known."""

    days_back: int
    counted: tuple[int, int] | None = None  # bad, total

    @property
    def good_share(self) -> float | None:
        return 1 - self.counted[0] / self.counted[1] if self.counted and self.counted[1] else None


def range_of(objective: Objective, now_ns: int) -> Span:
    """The time that the chart shows: the last period, or the current calendar period so far."""
    period = period_at(objective.period, now_ns)
    return Span(period.from_ns, now_ns)


def needed(objective: Objective, now_ns: int) -> tuple[int, int]:
    """The hours that the chart needs, since the epoch: for a rolling period twice as many as it shows."""
    shown = range_of(objective, now_ns)
    back_s = objective.period.period_s if isinstance(objective.period, Rolling) else 0
    return (shown.from_ns // SECOND_NS - back_s) // HOUR_S, now_ns // SECOND_NS // HOUR_S + 1


def burndown(
    objective: Objective,
    counts: Mapping[int, tuple[int, int]],
    now_ns: int,
    seen_s: int = 0,
    so_far: tuple[int, int] | None = None,
) -> list[Point]:
    """A point for each hour from `seen_s` on, or for several hours where there would be more than MAX_POINTS.

    `counts`: bad and total events by hour since the epoch; an hour that it lacks was not counted, so what was left at its end is not
    known. `so_far`: those of the period up to now, which say what the hours do not that are not over.
    """
    first, last = needed(objective, now_ns)
    from_hour = range_of(objective, now_ns).from_ns // SECOND_NS // HOUR_S
    begin = max(from_hour, min(seen_s // HOUR_S, last - 1))
    rolls = objective.period.period_s // HOUR_S if isinstance(objective.period, Rolling) else None
    counts = _with_now(counts, last - 1, from_hour if rolls is None else last - rolls, so_far)
    by_hour = np.array([counts.get(hour, (0, 0)) for hour in range(first, last)], np.int64)
    summed = np.concatenate([np.zeros((1, 2), np.int64), by_hour.cumsum(axis=0)])
    width = max(1, -(-(last - begin) // MAX_POINTS))
    points = []
    for start in range(begin, last, width):
        end = min(start + width, last)
        since = from_hour if rolls is None else end - rolls
        bad, total = (summed[end - first] - summed[since - first]).tolist()
        step_bad, step_total = (summed[end - first] - summed[start - first]).tolist()
        is_known = all(hour in counts for hour in range(start, end))
        points.append(Point(start * HOUR_S, left(objective, bad, total) if is_known else None, step_bad, step_total))
    return points


def days(points: Sequence[Point]) -> list[Day]:
    """The last 24 hours, those before, and those a week ago; each up to the end of the newest step. Nothing where steps make no whole day,
    and nothing where none of the earlier ones is known: then there is nothing to compare.
    """
    step_s = points[1].start_s - points[0].start_s if len(points) > 1 else 0
    if not step_s or DAY_S % step_s:
        return []
    out = []
    for back in DAYS_BACK:
        to_s = points[-1].start_s + step_s - back * DAY_S
        its = [point for point in points if to_s - DAY_S <= point.start_s < to_s]
        is_known = len(its) == DAY_S // step_s and all(point.left_share is not None for point in its)
        out.append(Day(back, (sum(it.bad for it in its), sum(it.total for it in its)) if is_known else None))
    return out if any(day.counted for day in out[1:]) else []


def day_of(counts: Mapping[int, tuple[int, int]], end: int, back: int) -> Day:
    """The 24 hours before the hour `end` (since the epoch), so many days back, out of bad and total events by counted hour."""
    hours = range(end - 24 * (back + 1), end - 24 * back)
    if not all(hour in counts for hour in hours):
        return Day(back)
    return Day(back, (sum(counts[hour][0] for hour in hours), sum(counts[hour][1] for hour in hours)))


def left(objective: Objective, bad: int, total: int) -> float | None:
    return 1 - bad / (error_budget(objective.target) * total) if total else None


def _with_now(
    counts: Mapping[int, tuple[int, int]], hour: int, since: int, so_far: tuple[int, int] | None
) -> Mapping[int, tuple[int, int]]:
    """With the hour that is not over: what the period has beyond the hours before it."""
    if so_far is None or hour in counts:
        return counts
    before = [counts[each] for each in range(since, hour) if each in counts]
    bad, total = so_far[0] - sum(each[0] for each in before), so_far[1] - sum(each[1] for each in before)
    return {**counts, hour: (bad, total)} if 0 <= bad <= total else counts
