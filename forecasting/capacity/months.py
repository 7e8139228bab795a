"""Calendar months and quarters of UTC, in hours of a plan."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from forecasting.capacity.assumptions import HOUR_S


@dataclass(frozen=True, slots=True)
class MonthHours:
    """The hours `start` until `stop` of a plan, all of one month such as 2026-11, which has `hours_in_month` in all."""

    month: str
    start: int
    stop: int
    hours_in_month: int


def hours_by_month(start_s: int, hours: int) -> Iterator[MonthHours]:
    """The months that the plan touches, in order."""
    at = 0
    while at < hours:
        moment = datetime.fromtimestamp(start_s + at * HOUR_S, UTC)
        first = datetime(moment.year, moment.month, 1, tzinfo=UTC)
        following = datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1, tzinfo=UTC)
        left = int((following - moment).total_seconds()) // HOUR_S
        stop = min(hours, at + left)
        yield MonthHours(f"{moment:%Y-%m}", at, stop, int((following - first).total_seconds()) // HOUR_S)
        at = stop


def quarter_hours(year: int, quarter: int) -> tuple[int, int]:
    """The epoch at which a quarter (1..4) begins, and its hours. Raises ValueError for any other number."""
    if quarter not in (1, 2, 3, 4):
        raise ValueError(f"quarter is {quarter}: give 1, 2, 3 or 4")
    first = datetime(year, quarter * 3 - 2, 1, tzinfo=UTC)
    following = datetime(year + quarter // 4, quarter * 3 % 12 + 1, 1, tzinfo=UTC)
    return int(first.timestamp()), int((following - first).total_seconds()) // HOUR_S
