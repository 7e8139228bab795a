"""Planned maintenance: once or again and again, on the wall clock of a place."""

from datetime import UTC, datetime

import pytest

from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.period import SECOND_NS, Span


def span(from_: str, to: str) -> Span:
    return Span(
        *(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS for text in (from_, to))
    )


SUNDAYS = MaintenanceWindow("drivers", datetime(2026, 3, 1, 2), "Europe/Berlin", 7_200, "FREQ=WEEKLY;BYDAY=SU")


def test_once_is_once() -> None:
    once = MaintenanceWindow("move", datetime(2026, 3, 1, 2), "Europe/Berlin", 7_200)
    assert once.occurrences(span("2026-01-01", "2027-01-01")) == [span("2026-03-01T01:00", "2026-03-01T03:00")]
    assert once.occurrences(span("2026-03-01T03:00", "2027-01-01")) == []


def test_two_in_the_morning_stays_two_in_the_morning() -> None:
    found = SUNDAYS.occurrences(span("2026-03-20", "2026-04-06"))
    assert found == [
        span("2026-03-22T01:00", "2026-03-22T03:00"),
        span("2026-03-29T01:00", "2026-03-29T03:00"),  # 02:00 does not exist: the clock goes from 02:00 to 03:00 then
        span("2026-04-05T00:00", "2026-04-05T02:00"),
    ]


def test_what_began_before_is_found_while_it_lasts() -> None:
    assert SUNDAYS.occurrences(span("2026-03-22T02:59", "2026-03-22T03:30")) == [
        span("2026-03-22T01:00", "2026-03-22T03:00")
    ]


def test_a_rule_may_end() -> None:
    ended = MaintenanceWindow("x", datetime(2026, 3, 1, 2), "UTC", 3_600, "FREQ=DAILY;COUNT=3")
    assert len(ended.occurrences(span("2026-01-01", "2027-01-01"))) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rule": "FREQ=SECONDLY"}, "FREQ=WEEKLY;BYDAY=SU"),
        ({"rule": "FREQ=WEEKLY;BYDAY=SUNDAY"}, "RFC 5545"),
        ({"rule": "FREQ=WEEKLY;UNTIL=20261231T000000Z"}, "UNTIL without Z"),
        ({"zone": "Berlin"}, "Europe/Berlin"),
        ({"duration_s": 1}, "60"),
        ({"scope": {"planet": "mars"}}, "prompt_bucket"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(given: dict[str, object], words: str) -> None:
    usual = {"name": "x", "start": datetime(2026, 3, 1, 2), "zone": "UTC", "duration_s": 3_600}
    with pytest.raises(ValueError, match=words):
        MaintenanceWindow(**{**usual, **given})  # type: ignore[arg-type]


def test_it_covers_what_lies_wholly_in_it() -> None:
    of_model = MaintenanceWindow(
        "x", datetime(2026, 3, 1), "UTC", 3_600, scope={"model": "a"}, objectives=frozenset({"up"})
    )
    assert of_model.covers("up", {"model": "a", "tier": "premium"})
    assert not of_model.covers("up", {"tier": "premium"})
    assert not of_model.covers("down", {"model": "a"})
