"""Maintenance windows, once and recurring, in the wall time of a zone."""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest
from dateutil.rrule import rrulestr

from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.period import SECOND_NS, Span
from tests.support.soak import sized


def span(from_: str, to: str) -> Span:
    return Span(
        *(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS for text in (from_, to))
    )


SUNDAYS = MaintenanceWindow("drivers", datetime(2026, 3, 1, 2), "Europe/Berlin", 7_200, "FREQ=WEEKLY;BYDAY=SU")


def test_once_is_once() -> None:
    once = MaintenanceWindow("move", datetime(2026, 3, 1, 2), "Europe/Berlin", 7_200)
    assert once.occurrences(span("2026-01-01", "2027-01-01")) == [span("2026-03-01T01:00", "2026-03-01T03:00")]
    assert once.occurrences(span("2026-03-01T03:00", "2027-01-01")) == []


def test_a_recurring_window_keeps_its_wall_time() -> None:
    found = SUNDAYS.occurrences(span("2026-03-20", "2026-04-06"))
    assert found == [
        span("2026-03-22T01:00", "2026-03-22T03:00"),
        span("2026-03-29T01:00", "2026-03-29T03:00"),  # 02:00 does not exist: the clock goes from 02:00 to 03:00 then
        span("2026-04-05T00:00", "2026-04-05T02:00"),
    ]


def test_an_occurrence_that_began_before_the_span_is_included() -> None:
    assert SUNDAYS.occurrences(span("2026-03-22T02:59", "2026-03-22T03:30")) == [
        span("2026-03-22T01:00", "2026-03-22T03:00")
    ]


def test_a_rule_may_end() -> None:
    ended = MaintenanceWindow("x", datetime(2026, 3, 1, 2), "UTC", 3_600, "FREQ=DAILY;COUNT=3")
    assert len(ended.occurrences(span("2026-01-01", "2027-01-01"))) == 3


@pytest.mark.parametrize("rule", ["FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30;COUNT=3"])
def test_a_rule_without_any_date_is_known_to_be_empty_in_a_moment(rule: str) -> None:
    never = MaintenanceWindow("x", datetime(2020, 1, 1), "UTC", 3_600, rule)
    began_s = time.process_time()
    assert never.occurrences(span("2026-01-01", "2027-01-01")) == []
    assert time.process_time() - began_s < 10


def test_a_rule_that_began_long_ago_costs_no_more() -> None:
    old = MaintenanceWindow("x", datetime(1, 1, 1, 5), "UTC", 3_600, "FREQ=HOURLY;INTERVAL=5")
    began_s = time.process_time()
    days = [old.occurrences(span(f"2026-03-{day:02}", f"2026-03-{day + 1:02}")) for day in range(1, 29)]
    assert all(4 <= len(each) <= 6 for each in days)
    assert time.process_time() - began_s < 10


@pytest.mark.parametrize("seed", range(sized(20, soak=100)))
def test_occurrences_equal_the_rule_expanded_from_its_start(seed: int) -> None:
    source = random.Random(seed)
    start = datetime(2016, 1, 1) + timedelta(hours=source.randrange(9 * 8_766))
    start = source.choice((start, datetime(2020, 2, 29, 3), datetime(2021, 1, 31, 23), datetime(2020, 12, 28)))
    frequency = source.choice(("HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"))
    parts = {"FREQ": frequency, "INTERVAL": source.choice(("1", "1", "2", "3", "7"))}
    parts |= dict(source.sample([
        ("BYDAY", source.choice(("SU", "MO,WE", "SA"))), ("BYMONTH", source.choice(("2", "1,7"))),
        ("BYMONTHDAY", source.choice(("1", "29", "31", "-1"))), ("BYHOUR", "2,14"), ("WKST", "SU"), ("BYSETPOS", "-1"),
        ("COUNT", "40"), ("UNTIL", source.choice(("20260601T000000", "20260315"))),
    ], source.randrange(3)))  # fmt: skip
    if "BYSETPOS" in parts:
        parts["BYDAY"] = "MO,TU,FR"
    if "COUNT" in parts:
        parts.pop("UNTIL", None)
    if frequency == "HOURLY":
        parts.pop("BYHOUR", None)  # such hours may never come
    rule = ";".join(f"{name}={value}" for name, value in parts.items())
    window = MaintenanceWindow("x", start, "UTC", 3_600, rule)
    year = span("2025-08-01", "2026-09-01")
    starts = rrulestr(rule, dtstart=start).between(datetime(2025, 7, 31, 23, 0, 1), datetime(2026, 8, 31, 23, 59, 59))
    assert [each.from_ns for each in window.occurrences(year)] == [
        int(at.replace(tzinfo=UTC).timestamp()) * SECOND_NS for at in starts
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rule": "FREQ=DAILY;INTERVAL=0"}, "INTERVAL"),
        ({"rule": "FREQ=DAILY;INTERVAL=-1"}, "INTERVAL"),
        ({"rule": "FREQ=SECONDLY"}, "FREQ=WEEKLY;BYDAY=SU"),
        ({"rule": "FREQ=WEEKLY;BYDAY=SUNDAY"}, "RFC 5545"),
        ({"rule": "FREQ=WEEKLY;UNTIL=20261231T000000Z"}, "UNTIL without Z"),
        ({"zone": "Berlin"}, "Europe/Berlin"),
        ({"duration_s": 1}, "60"),
        ({"scope": {"planet": "mars"}}, "prompt_bucket"),
    ],
)
def test_an_invalid_window_is_refused_with_the_remedy(given: dict[str, object], words: str) -> None:
    usual = {"name": "x", "start": datetime(2026, 3, 1, 2), "zone": "UTC", "duration_s": 3_600}
    with pytest.raises(ValueError, match=words):
        MaintenanceWindow(**{**usual, **given})  # type: ignore[arg-type]


def test_a_window_covers_scopes_that_lie_wholly_in_it() -> None:
    of_model = MaintenanceWindow(
        "x", datetime(2026, 3, 1), "UTC", 3_600, scope={"model": "a"}, objectives=frozenset({"up"})
    )
    assert of_model.covers("up", {"model": "a", "tier": "premium"})
    assert not of_model.covers("up", {"tier": "premium"})
    assert not of_model.covers("down", {"model": "a"})
