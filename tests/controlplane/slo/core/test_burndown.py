"""The budget over time, by hours made up by hand."""

from dataclasses import replace
from datetime import datetime

import pytest

from controlplane.slo.core.burndown import MAX_POINTS, Day, Point, burndown, day_of, days, needed, range_of
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Availability

HOUR_S = 3_600
NOW_NS = (1_000 * HOUR_S + 1_800) * SECOND_NS  # half past an hour, 11 February 1970
FOUR_HOURS = Objective("up", "", Availability(), 0.9, period=Rolling(4 * HOUR_S))
MONTH = Objective("up", "", Availability(), 0.9, period=Calendar("month", datetime(1970, 1, 1), "UTC"))
FEBRUARY = 31 * 24  # its first hour


def test_a_rolling_period_shows_itself_and_needs_as_much_before() -> None:
    assert range_of(FOUR_HOURS, NOW_NS) == Span(NOW_NS - 4 * HOUR_S * SECOND_NS, NOW_NS)
    assert needed(FOUR_HOURS, NOW_NS) == (992, 1_001)


def test_a_calendar_period_shows_and_needs_what_has_passed_of_it() -> None:
    assert range_of(MONTH, NOW_NS) == Span(FEBRUARY * HOUR_S * SECOND_NS, NOW_NS)
    assert needed(MONTH, NOW_NS) == (FEBRUARY, 1_001)


def test_each_point_of_a_rolling_period_is_of_the_period_that_ends_there() -> None:
    hours = {hour: (int(hour == 993), 10) for hour in range(992, 1_001)}
    found = burndown(FOUR_HOURS, hours, NOW_NS)
    assert [point.start_s for point in found] == [hour * HOUR_S for hour in range(996, 1_001)]
    # The bad hour is the first of the four that end with the first point.
    assert [point.left_share for point in found] == pytest.approx([1 - 1 / 4, 1, 1, 1, 1])


def test_each_point_of_a_calendar_period_is_of_the_time_since_its_start() -> None:
    hours = {FEBRUARY - 1: (9, 10), FEBRUARY: (1, 10), FEBRUARY + 1: (0, 10)}
    found = burndown(MONTH, dict.fromkeys(range(FEBRUARY, 1_001), (0, 0)) | hours, NOW_NS)
    assert [point.left_share for point in found[:2]] == pytest.approx([0, 0.5])
    assert (len(found), found[-1].left_share) == (1_001 - FEBRUARY, pytest.approx(0.5))


def test_a_point_has_the_events_of_its_own_hour() -> None:
    found = burndown(FOUR_HOURS, {995: (1, 1), 996: (2, 5), 1_000: (3, 7)}, NOW_NS)
    assert [(point.bad, point.total) for point in found] == [(2, 5), (0, 0), (0, 0), (0, 0), (3, 7)]


def test_the_budget_is_unknown_until_the_first_event_and_in_hours_that_were_not_counted() -> None:
    found = burndown(FOUR_HOURS, {997: (0, 0), 998: (0, 1), 1_000: (0, 0)}, NOW_NS)
    assert [point.left_share for point in found] == [None, None, 1, None, 1]


def test_the_hour_that_is_not_over_has_what_the_period_has_beyond_the_others() -> None:
    hours = {996: (5, 5), 997: (1, 10), 998: (0, 0), 999: (0, 10)}  # the first of them has left the period
    found = burndown(FOUR_HOURS, hours, NOW_NS, so_far=(2, 25))
    assert found[-1] == Point(1_000 * HOUR_S, pytest.approx(1 - 2 / 2.5), 1, 5)
    for stale in ((0, 10), (9, 21)):  # hours were counted again since, and nothing can be said
        found = burndown(FOUR_HOURS, hours, NOW_NS, so_far=stale)
        assert (found[-1].left_share, found[-1].total) == (None, 0)


def test_nothing_is_drawn_before_it_was_seen() -> None:
    found = burndown(FOUR_HOURS, {998: (0, 1), 999: (0, 1)}, NOW_NS, seen_s=998 * HOUR_S + 1_800)
    assert [(point.start_s, point.left_share) for point in found] == [
        (998 * HOUR_S, 1), (999 * HOUR_S, 1), (1_000 * HOUR_S, None),
    ]  # fmt: skip


@pytest.mark.parametrize(("shown_hours", "points", "width"), [(799, 800, 1), (800, 401, 2), (1_600, 534, 3)])
def test_points_are_as_wide_as_they_must_be_to_be_few(shown_hours: int, points: int, width: int) -> None:
    now = 10_000  # the hour that has just begun is shown too
    long = Objective("up", "", Availability(), 0.9, period=Rolling(shown_hours * HOUR_S))
    found = burndown(long, dict.fromkeys(range(now + 1), (1, 100)), now * HOUR_S * SECOND_NS)
    assert len(found) == points <= MAX_POINTS
    assert found[0].start_s == (now - shown_hours) * HOUR_S
    assert (found[1].start_s - found[0].start_s, found[0].total) == (width * HOUR_S, width * 100)
    lacking = dict.fromkeys(range(now + 1), (1, 100))
    del lacking[found[1].start_s // HOUR_S]
    several = burndown(long, lacking, now * HOUR_S * SECOND_NS)
    assert [point.left_share is None for point in several[:3]] == [False, True, False], "not all of it was counted"


def test_the_last_point_ends_with_the_current_hour() -> None:
    """801 hours are shown by points of two hours, so the last one has only one."""
    now = 10_000
    long = Objective("up", "", Availability(), 0.9, period=Rolling(800 * HOUR_S))
    found = burndown(long, {now: (1, 10), now + 1: (9, 9)}, now * HOUR_S * SECOND_NS)
    assert found[-1] == Point(now * HOUR_S, pytest.approx(0), 1, 10)


def test_the_last_day_stands_beside_the_day_before_and_that_of_a_week_ago() -> None:
    points = [Point(hour * HOUR_S, 1.0, int(hour < 24), 10) for hour in range(9 * 24)]
    assert days(points) == [Day(0, (0, 240)), Day(1, (0, 240)), Day(7, (0, 240))]
    assert days(points[: 8 * 24])[2] == Day(7, (24, 240))
    assert days(points[: 8 * 24])[2].good_share == 0.9
    assert days(points[1 : 8 * 24]) == [Day(0, (0, 240)), Day(1, (0, 240)), Day(7)], "one of its hours is not there"
    gap = [replace(point, left_share=None) if point.start_s == 7 * 24 * HOUR_S + HOUR_S else point for point in points]
    assert [day.counted for day in days(gap)] == [(0, 240), None, (0, 240)], "one of its hours was not counted"
    assert days(points[:40]) == days(points[:1]) == days([]) == [], "no other day is known"
    assert days([replace(point, start_s=5 * point.start_s) for point in points]) == [], "steps of five hours"
    assert days([replace(point, total=0) for point in points])[1].good_share is None, "no event, no share"


def test_a_day_of_hours_is_known_where_each_of_them_was_counted() -> None:
    hours = {hour: (hour % 2, hour) for hour in range(100, 148)}
    assert day_of(hours, 148, 0) == Day(0, (12, sum(range(124, 148))))
    assert day_of(hours, 148, 1) == Day(1, (12, sum(range(100, 124))))
    assert day_of(hours, 147, 1) == Day(1)
