"""Floors by clock and calendar."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from controlplane.policy.core.spec import Schedule

MS_PER_S = 1_000


class Scheduled(NamedTuple):
    floor: int
    name: str


def scheduled(schedules: Sequence[Schedule], now_ms: int, ahead_s: float) -> Scheduled | None:
    """The highest floor of the schedules that run now or begin within `ahead_s`: replicas are to be warm by then."""
    now = datetime.fromtimestamp(now_ms / MS_PER_S, UTC)
    until = now + timedelta(seconds=ahead_s)
    running = [
        Scheduled(schedule.floor, schedule.name)
        for schedule in schedules
        if any(start <= until and now < end for start, end in _spans(schedule, now, until))
    ]
    return max(running, default=None)


def _spans(schedule: Schedule, now: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Its times, from that of the day before now, which may not be over, to that of the last day."""
    zone = ZoneInfo(schedule.zone)
    day, last = now.astimezone(zone).date() - timedelta(days=1), until.astimezone(zone).date()
    while day <= last:
        if _is_day(schedule, day):
            lasts = _of_day(schedule.end) - _of_day(schedule.start)
            start = _at(day, schedule.start, zone)
            end = _at(day if lasts > timedelta() else day + timedelta(days=1), schedule.end, zone)
            yield start, end if end > start else start + lasts  # which the clock has left out
        day += timedelta(days=1)


def _is_day(schedule: Schedule, day: date) -> bool:
    if not schedule.weekdays and not schedule.dates:
        return True
    return day.isoweekday() in schedule.weekdays or day.isoformat() in schedule.dates


def _at(day: date, time_of_day: str, zone: ZoneInfo) -> datetime:
    """In UTC. A time that the change to summer time leaves out is as much later as the clock is changed by."""
    at = datetime(day.year, day.month, day.day) + _of_day(time_of_day)
    return at.replace(tzinfo=zone).astimezone(UTC)


def _of_day(time_of_day: str) -> timedelta:
    hours, minutes = (int(part) for part in time_of_day.split(":"))
    return timedelta(hours=hours, minutes=minutes)
