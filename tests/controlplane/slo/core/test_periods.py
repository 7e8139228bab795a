"""Periods have the lengths of the zone's calendar."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted, evaluate
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, Span, check, horizon_s, period_at
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import WORKBOOK, BurnWindow

DAY_S = 86_400


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS


def days(span: Span) -> float:
    return span.length_s / DAY_S


def test_a_rolling_period_ends_now() -> None:
    assert period_at(Rolling(7 * DAY_S), ns("2026-03-10T12:00")) == Span(ns("2026-03-03T12:00"), ns("2026-03-10T12:00"))


@pytest.mark.parametrize(
    ("at", "length"), [("2026-02-10", 28), ("2028-02-10", 29), ("2026-11-30T23:59:59", 30), ("2026-12-01", 31)]
)
def test_months_have_their_own_length(at: str, length: int) -> None:
    assert days(period_at(Calendar("month", datetime(2026, 1, 1), "UTC"), ns(at))) == length


def test_a_month_begun_on_the_31st_ends_on_the_last_day_of_a_shorter_one_and_comes_back() -> None:
    monthly = Calendar("month", datetime(2026, 1, 31), "UTC")
    assert period_at(monthly, ns("2026-02-28T00:00")) == Span(ns("2026-02-28T00:00"), ns("2026-03-31T00:00"))


@pytest.mark.parametrize(
    ("at", "hours"), [("2026-03-29T12:00", 23), ("2026-10-25T12:00", 25), ("2026-07-01T12:00", 24)]
)
def test_days_are_those_of_their_zone(at: str, hours: int) -> None:
    daily = Calendar("day", datetime(2026, 1, 1), "Europe/Berlin")
    assert period_at(daily, ns(at)).length_s == hours * 3600


@pytest.mark.parametrize(
    ("unit", "count", "from_", "to"),
    [
        ("week", 1, "2026-11-16", "2026-11-23"),
        ("week", 2, "2026-11-09", "2026-11-23"),
        ("quarter", 1, "2026-10-05", "2027-01-05"),
        ("year", 1, "2026-01-05", "2027-01-05"),
    ],
)
def test_units_are_counted_from_the_start(unit: str, count: int, from_: str, to: str) -> None:
    calendar = Calendar(unit, datetime(2026, 1, 5), "UTC", count)  # type: ignore[arg-type]
    found = period_at(calendar, ns("2026-11-21T03:00"))
    assert found == Span(ns(from_), ns(to))


def test_a_moment_before_the_start_has_a_period_too() -> None:
    assert period_at(Calendar("month", datetime(2026, 6, 1), "UTC"), ns("2026-03-15")) == Span(
        ns("2026-03-01"), ns("2026-04-01")
    )


def test_periods_leave_no_gap() -> None:
    monthly = Calendar("month", datetime(2025, 10, 31, 2, 30), "America/New_York")
    at = ns("2025-11-01T12:00")
    for _ in range(40):
        span = period_at(monthly, at)
        assert span.from_ns <= at < span.to_ns
        assert period_at(monthly, span.to_ns).from_ns == span.to_ns
        at = span.to_ns


@pytest.mark.parametrize("at", ["2026-03-29T12:00", "2026-10-25T12:00", "2026-07-01T12:00"])
def test_a_window_of_a_day_is_judged_on_days_of_23_and_25_hours(at: str) -> None:
    daily = Objective(
        "daily",
        "",
        Availability(),
        0.99,
        period=Calendar("day", datetime(2026, 1, 1), "Europe/Berlin"),
        windows=(BurnWindow("page", DAY_S, 7_200, 0.5),),
    )
    check(daily)
    counted = Counted(dict.fromkeys((DAY_S, 7_200), Counts(50, 100)), Counts(50, 100), 0)
    found = evaluate(daily, {}, counted, ns(at), [])
    assert found.alert.state == "firing"
    assert found.alert.verdicts[0].threshold == 0.5 * found.period.length_s / DAY_S


@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
def test_counts_reach_back_over_the_longest_period(unit: str) -> None:
    calendar = Calendar(unit, datetime(2026, 1, 1), "Australia/Lord_Howe")  # type: ignore[arg-type]
    reach_s = horizon_s(Objective("o", "", Availability(), 0.99, period=calendar, windows=(WORKBOOK[0],)))
    at = ns("2023-12-31T12:00")
    for _ in range(450):
        span = period_at(calendar, at)
        assert span.length_s + 3_600 <= reach_s
        at = span.to_ns


def test_a_period_for_which_no_counts_are_kept_is_refused() -> None:
    yearly = Calendar("year", datetime(2026, 1, 1), "UTC")
    check(Objective("o", "", Availability(), 0.99, period=yearly))
    for period, field in ((replace(yearly, count=2), "calendar_count=2"), (Rolling(400 * DAY_S), "period_s=34560000")):
        with pytest.raises(ValueError, match=f"{field} is too long"):
            check(Objective("o", "", Availability(), 0.99, period=period))
