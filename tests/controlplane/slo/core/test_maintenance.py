"""Maintenance windows, once and recurring, in the wall time of a zone."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from dateutil.rrule import rrulestr

from controlplane.slo.core.maintenance_windows import MAX_S, MaintenanceWindow
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
    assert SUNDAYS.occurrences(span("2026-03-22T02:59", "2026-03-22T03:30")) == found[:1], "it began before the span"


@pytest.mark.parametrize("rule", ["FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30;COUNT=3"])
def test_a_rule_without_any_date_is_empty(rule: str) -> None:
    """A search until the end of the calendar would take minutes; of the year 2390 it takes ten years of it."""
    never = MaintenanceWindow("x", datetime(2388, 1, 1), "UTC", 3_600, rule)
    assert never.occurrences(span("2390-01-10", "2390-12-20")) == []


def test_a_rule_that_began_long_ago_has_its_occurrences() -> None:
    old = MaintenanceWindow("x", datetime(1, 1, 1, 5), "UTC", 3_600, "FREQ=HOURLY;INTERVAL=5")
    days = [old.occurrences(span(f"2026-03-{day:02}", f"2026-03-{day + 1:02}")) for day in range(1, 29)]
    assert all(4 <= len(each) <= 6 for each in days)


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
    if parts.get("BYMONTH") == "2" and parts.get("BYMONTHDAY") == "31":
        parts["BYMONTHDAY"] = "29"  # a rule without any date has a test of its own
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


def test_a_window_lasts_from_a_minute_to_31_days() -> None:
    for taken in (60, 31 * 86_400):
        [found] = MaintenanceWindow("x", datetime(2026, 3, 1), "UTC", taken).occurrences(
            span("2026-01-01", "2027-01-01")
        )
        assert found.length_s == taken
    for refused in (-60, 0, 59, MAX_S + 1):
        with pytest.raises(ValueError, match=r"use 60 \(a minute\) to 2678400 \(31 days\)"):
            MaintenanceWindow("x", datetime(2026, 3, 1), "UTC", refused)


def test_an_interval_has_up_to_six_digits() -> None:
    for interval in ("1", "01", "999999"):
        MaintenanceWindow("x", datetime(2026, 3, 1), "UTC", 60, f"FREQ=DAILY;INTERVAL={interval}")
    for interval in ("0", "00", "1000000", "1.5", ""):
        with pytest.raises(ValueError, match="INTERVAL of 1 or more"):
            MaintenanceWindow("x", datetime(2026, 3, 1), "UTC", 60, f"FREQ=DAILY;INTERVAL={interval}")


@pytest.mark.parametrize(
    ("from_", "to", "overlaps"),
    [
        ("2026-03-01T00:00", "2026-03-01T02:00", False),
        ("2026-03-01T00:00", "2026-03-01T02:00:01", True),
        ("2026-03-01T03:59:59", "2026-03-01T05:00", True),
        ("2026-03-01T04:00", "2026-03-01T05:00", False),
        ("2026-03-01T02:30", "2026-03-01T02:31", True),
    ],
)
@pytest.mark.parametrize("rule", ["", "FREQ=YEARLY"])
def test_an_occurrence_that_only_touches_the_span_is_not_in_it(
    rule: str, from_: str, to: str, *, overlaps: bool
) -> None:
    window = MaintenanceWindow("x", datetime(2026, 3, 1, 2), "UTC", 7_200, rule)
    expected = [span("2026-03-01T02:00", "2026-03-01T04:00")] if overlaps else []
    assert window.occurrences(span(from_, to)) == expected


def test_the_longest_occurrence_that_began_in_another_year_is_found_at_its_end() -> None:
    long = MaintenanceWindow("x", datetime(2020, 12, 20), "UTC", MAX_S, "FREQ=YEARLY")
    assert long.occurrences(span("2026-01-19", "2026-01-20")) == [span("2025-12-20", "2026-01-20")]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_farthest_zones_lose_no_occurrence(zone: str) -> None:
    daily = MaintenanceWindow("x", datetime(2025, 1, 1, 12), zone, 3_600, "FREQ=DAILY")
    hours = [daily.occurrences(span(f"2026-01-01T{hour:02}:00", f"2026-01-01T{hour:02}:59")) for hour in range(24)]
    assert sum(map(len, hours)) == 1


def test_an_occurrence_may_begin_with_the_rule_and_at_the_ends_of_a_year() -> None:
    daily = MaintenanceWindow("x", datetime(2025, 12, 31, 23, 59, 59), "UTC", 60, "FREQ=HOURLY;INTERVAL=24")
    found = daily.occurrences(span("2025-01-01", "2026-01-02T00:00"))
    assert found == [
        span("2025-12-31T23:59:59", "2026-01-01T00:00:59"),
        span("2026-01-01T23:59:59", "2026-01-02T00:00:59"),
    ]
    hourly = MaintenanceWindow("x", datetime(2025, 1, 1), "UTC", 60, "FREQ=HOURLY;INTERVAL=24")
    assert hourly.occurrences(span("2026-01-01", "2026-01-01T00:01")) == [span("2026-01-01", "2026-01-01T00:01")]


@pytest.mark.parametrize(("year", "easter"), [(2024, "2024-03-31"), (2026, "2026-04-05"), (2027, "2027-03-28")])
def test_a_rule_may_follow_easter(year: int, easter: str) -> None:
    """Its tables end in the year 4099, so such a rule is not moved to the end of the calendar."""
    eve = MaintenanceWindow("x", datetime(2020, 1, 1, 2), "UTC", 3_600, "FREQ=YEARLY;BYEASTER=0")
    found = eve.occurrences(span(f"{year}-01-01", f"{year + 1}-01-01"))
    assert found == [span(f"{easter}T02:00", f"{easter}T03:00")]


@pytest.mark.parametrize("year", [1998, 1999, 2000, 2398, 2399, 2400])
def test_a_rule_is_moved_to_a_year_that_the_calendar_has(year: int) -> None:
    leap = MaintenanceWindow("x", datetime(1996, 12, 31), "UTC", 3_600, "FREQ=YEARLY")
    assert leap.occurrences(span(f"{year}-12-01", f"{year}-12-31T12:00")) == [
        span(f"{year}-12-31", f"{year}-12-31T01:00")
    ]


@pytest.mark.parametrize(("end", "times"), [("COUNT=3", 3), ("UNTIL=20260302T020000", 2)])
def test_a_rule_may_end(end: str, times: int) -> None:
    daily = MaintenanceWindow("x", datetime(2026, 3, 1, 2), "UTC", 3_600, f"FREQ=DAILY;{end}")
    assert len(daily.occurrences(span("2026-01-01", "2027-01-01"))) == times


def test_times_that_no_calendar_has_are_refused_and_cover_nothing() -> None:
    year_one = Span(-719_162 * 86_400 * SECOND_NS, -719_161 * 86_400 * SECOND_NS)
    daily = MaintenanceWindow("x", datetime(1, 1, 1), "UTC", 3_600, "FREQ=DAILY")
    assert daily.refusal(year_one).startswith("OverflowError: ")
    assert daily.occurrences(year_one) == []
    assert SUNDAYS.refusal(span("2026-03-20", "2026-04-06")) == ""


def test_windows_are_told_apart_by_what_decides_their_times() -> None:
    other = MaintenanceWindow("drivers", datetime(2026, 3, 1, 2), "Europe/Berlin", 7_200, "FREQ=WEEKLY;BYDAY=MO")
    assert hash(other) != hash(SUNDAYS)


def test_a_window_covers_scopes_that_lie_wholly_in_it() -> None:
    of_model = MaintenanceWindow(
        "x", datetime(2026, 3, 1), "UTC", 3_600, scope={"model": "a"}, objectives=frozenset({"up"})
    )
    assert of_model.covers("up", {"model": "a", "tier": "premium"})
    assert not of_model.covers("up", {"tier": "premium"})
    assert not of_model.covers("down", {"model": "a"})
    assert SUNDAYS.covers("any", {})
