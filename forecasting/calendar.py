"""The real calendar of a series: its time zone, holidays, and events that people planned."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import holidays
import numpy as np
import numpy.typing as npt
from holidays import HolidayBase

from forecasting.series import F64

HOUR_S = 3600
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S


class CalendarError(ValueError):
    """A time zone, country or event cannot be. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """What people know will change demand, such as a launch or a campaign, from `start_s` to `end_s` (epochs).

    `factor` is how many times the usual demand is expected; None where it is to be learned from earlier events of the
    same name. Raises CalendarError where a field cannot be.
    """

    name: str
    start_s: int
    end_s: int
    factor: float | None = None

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s:
            raise CalendarError(
                f"event {self.name!r}: end_s is {self.end_s}: give a time after start_s, {self.start_s}"
            )
        if self.factor is not None and not 0 < self.factor < float("inf"):
            raise CalendarError(f"event {self.name!r}: factor is {self.factor}: give a number above 0, or none")

    def share_of(self, times_s: npt.NDArray[np.int64], step_s: int) -> F64:
        """The share of each step that the event covers, 0 to 1."""
        overlap_s = np.minimum(times_s + step_s, self.end_s) - np.maximum(times_s, self.start_s)
        share: F64 = np.clip(overlap_s / step_s, 0.0, 1.0)
        return share


@dataclass(frozen=True)
class Calendar:
    """`timezone` is an IANA name; days begin and clocks change there. `country` (ISO 3166) and `subdivision` choose holidays."""

    timezone: str = "UTC"
    country: str = ""
    subdivision: str = ""
    events: tuple[PlannedEvent, ...] = ()

    def __post_init__(self) -> None:
        zone(self.timezone)
        if self.country:
            supported = holidays.list_supported_countries(include_aliases=True)
            if self.country not in supported:
                raise CalendarError(f"country is {self.country!r}: give an ISO 3166 code, such as DE or US, or none")
            if self.subdivision and self.subdivision not in supported[self.country]:
                some = ", ".join(supported[self.country][:5]) or "none, because the country has none"
                raise CalendarError(f"subdivision is {self.subdivision!r}: give one of {self.country}'s: {some}")

    @cached_property
    def zone(self) -> tzinfo:
        return zone(self.timezone)

    def offsets_s(self, times_s: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How far local time is ahead of UTC at each epoch. Clocks change at a quarter of an hour at the finest."""
        if self.timezone == "UTC" or not len(times_s):
            return np.zeros(len(times_s), dtype=np.int64)
        quarters, place = np.unique(times_s // 900, return_inverse=True)
        offsets = [_offset_s(self.zone, int(quarter) * 900) for quarter in quarters]
        ahead_s: npt.NDArray[np.int64] = np.array(offsets, dtype=np.int64)[place]
        return ahead_s

    def factors(self, times_s: npt.NDArray[np.int64], step_s: int) -> F64:
        """How many times the usual demand the planned events make of each step; 1 where there is none."""
        factors = np.ones(len(times_s))
        for event in self.events:
            if event.factor is not None:
                factors *= 1 + (event.factor - 1) * event.share_of(times_s, step_s)
        return factors

    def holidays(self, start_s: int, end_s: int) -> Iterator[tuple[date, str]]:
        """The country's holidays between two epochs, with their names, in order."""
        if not self.country:
            return
        first, last = (datetime.fromtimestamp(at_s, self.zone).date() for at_s in (start_s, end_s))
        named = self._named(range(first.year, last.year + 1))
        for day in sorted(named):
            if first <= day <= last:
                yield day, named[day]

    @cached_property
    def weekend(self) -> frozenset[int]:
        """The weekdays of the country's weekend; Monday is 0."""
        return frozenset(self._named(()).weekend) if self.country else frozenset((5, 6))

    def _named(self, years: Iterable[int]) -> HolidayBase:
        return holidays.country_holidays(self.country, subdiv=self.subdivision or None, years=years, language="en_US")


@lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """The time zone of an IANA name. Raises CalendarError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CalendarError(f"timezone is {name!r}: give an IANA name, such as Europe/Berlin, or UTC") from error


def _offset_s(zone: tzinfo, at_s: int) -> int:
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def time_text(at_s: float) -> str:
    """An epoch for people, in UTC."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M} UTC"
