"""Floors by clock and calendar."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.policy.core.schedules import scheduled
from controlplane.policy.core.spec import Schedule

DAY: dict[str, Any] = {"start": "08:00", "end": "20:00", "zone": "Europe/Berlin"}
NIGHT: dict[str, Any] = {"start": "22:00", "end": "06:00", "weekdays": (5,)}

LEFT_OUT: dict[str, Any] = {"start": "02:30", "end": "03:00", "zone": "Europe/Berlin"}
"""By the change to summer time, on 29 March 2026."""


def floor_at(when: str, ahead_s: float = 0.0, *schedules: dict[str, Any]) -> int:
    each = tuple(Schedule(f"s{number}", **{"floor": 4} | fields) for number, fields in enumerate(schedules))
    running = scheduled(each, int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() * 1_000), ahead_s)
    return running.floor if running else 0


@pytest.mark.parametrize(
    ("schedule", "when", "floor"),
    [
        ({}, "2026-11-25T03:00", 4),
        (DAY, "2026-11-25T06:59", 0),  # 07:59 in Berlin
        (DAY, "2026-11-25T07:00", 4),
        (DAY, "2026-11-25T19:00", 0),  # the end is not included
        (DAY, "2026-07-25T06:00", 4),  # in summer an hour earlier
        (DAY | {"weekdays": (1, 2)}, "2026-11-25T12:00", 0),  # a Wednesday
        (DAY | {"weekdays": (1,), "dates": ("2026-11-25",)}, "2026-11-25T12:00", 4),
        (DAY | {"dates": ("2026-11-26",)}, "2026-11-25T12:00", 0),
        (NIGHT, "2026-11-27T21:59", 0),
        (NIGHT, "2026-11-27T22:00", 4),  # Friday
        (NIGHT, "2026-11-28T05:59", 4),  # Saturday, of Friday's night
        (NIGHT, "2026-11-28T22:00", 0),
        ({"start": "20:00", "end": "24:00"}, "2026-11-25T23:59", 4),
        (LEFT_OUT, "2026-03-29T01:45", 4),
        (LEFT_OUT, "2026-03-29T02:00", 0),
        (LEFT_OUT, "2026-03-29T20:00", 0),
    ],
)
def test_a_schedule_runs_by_the_clock_of_its_zone(schedule: dict[str, Any], when: str, floor: int) -> None:
    assert floor_at(when, 0.0, schedule) == floor


def test_replicas_are_warm_when_it_begins_and_of_several_the_highest_counts() -> None:
    assert floor_at("2026-11-25T06:50", 300.0, DAY) == 0
    assert floor_at("2026-11-25T06:55", 300.0, DAY) == 4
    assert floor_at("2026-11-25T12:00", 0.0, DAY, {"floor": 7}, {"floor": 2}) == 7
