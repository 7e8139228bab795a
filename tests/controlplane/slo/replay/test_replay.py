"""Replays of known histories."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow
from controlplane.slo.replay.core.episodes import Replay, replay
from controlplane.slo.replay.core.history import History

MINUTE = 60
DAY = DAY_S // MINUTE  # in steps
THREE_NINES = Objective("shop", "Shop", Availability(), 0.999)


def traffic(days: float, per_minute: int = 1_000, ratio: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Bad and total by minute; fractions of a bad request add up, so that the ratio is met over time."""
    steps = round(days * DAY)
    total = np.full(steps, per_minute, np.int64)
    bad = np.diff(np.floor(np.arange(steps + 1) * per_minute * ratio + 1e-9)).astype(np.int64)
    return bad, total


def replayed(
    bad: np.ndarray, total: np.ndarray, objective: Objective = THREE_NINES, start_s: int = 0, judged_from_s: int = 0
) -> Replay:
    return replay(History(start_s, MINUTE, bad, total, judged_from_s), objective)


def test_thirty_days_at_nine_tenths_of_the_budget_page_nobody() -> None:
    found = replayed(*traffic(30, ratio=0.9 * 0.001))
    assert found.episodes == ()
    assert found.left_share == pytest.approx(0.1, abs=0.001)


def test_thirty_days_at_twice_the_budget_are_a_ticket_and_no_page() -> None:
    found = replayed(*traffic(30, ratio=2 * 0.001))
    assert found.pages == []
    [ticket] = found.tickets
    assert ticket.opened_s == 2 * MINUTE  # as soon as there are three bad ones: what was before was nothing
    assert ticket.closed_s is None


def test_a_total_outage_pages_within_minutes_and_before_the_budget_is_used_up() -> None:
    bad, total = traffic(30)
    outage = slice(20 * DAY, 20 * DAY + 30)
    bad[outage] = total[outage]
    found = replayed(bad, total)
    [page] = found.pages
    assert page.opened_s - 20 * DAY_S == 1 * MINUTE  # a minute of it is 16.7 times the budget of an hour
    assert page.window == BurnWindow("page", HOUR_S, 300, 0.02)
    assert page.left_share == pytest.approx(1 - 1 / (20 * DAY * 0.001), rel=0.01)
    # The 1 h window's short half closes 5 minutes after the outage, and the 6 h window's 30 minutes after it.
    assert page.closed_s is not None
    assert page.closed_s - (20 * DAY_S + 30 * MINUTE) == pytest.approx(30 * MINUTE, abs=MINUTE)
    assert len(found.episodes) == 1  # its tickets are of the same incident


def test_a_page_has_the_budget_left_and_how_long_it_lasts() -> None:
    bad, total = traffic(30)
    bad[20 * DAY : 20 * DAY + 60] = total[20 * DAY : 20 * DAY + 60]
    found = replayed(bad, total)
    [page] = found.pages
    used_up_s = found.exhausted_s
    assert used_up_s is not None
    assert page.exhausted_s == used_up_s
    # 20 days of 1,000 a minute leave room for 28,800 bad ones: 29 minutes of outage, the first of which pages.
    assert found.warning_s == used_up_s - page.opened_s == 28 * MINUTE
    # 20 days of 30 are recorded: each second allows as much again, so what they leave is burned at the rate less 1.
    assert page.lasts_s == pytest.approx(page.left_share * page.opened_s / (page.rate - 1))


def test_one_error_in_ten_requests_a_day_pages_nobody() -> None:
    total = np.zeros(30 * DAY, np.int64)
    total[:: DAY // 10] = 1
    bad = np.zeros_like(total)
    bad[: 30 * DAY : DAY] = 1
    found = replayed(bad, total)
    assert found.pages == []
    assert {ticket.windows for ticket in found.tickets} == {(3,)}  # three in thirty over three days are no chance


def test_without_the_minimum_one_error_pages() -> None:
    total = np.zeros(30 * DAY, np.int64)
    total[:: DAY // 10] = 1
    bad = np.zeros_like(total)
    bad[10 * DAY] = 1
    unguarded = replace(THREE_NINES, minimum=MinimumEvents(0, 0))
    assert len(replayed(bad, total, unguarded).pages) == 1


def test_an_outage_pages_however_little_was_recorded_before_it() -> None:
    """As the controller does: what was before anything was recorded had no requests."""
    bad, total = traffic(31 / DAY)  # 31 minutes of 30 days
    bad[-2:] = total[-2:]
    [page] = replayed(bad, total).pages
    assert page.opened_s == 30 * MINUTE
    assert page.left_share < -30


def test_changed_windows_change_the_pages() -> None:
    bad, total = traffic(30)
    outage = slice(10 * DAY, 10 * DAY + 3)
    bad[outage] = total[outage]
    slow = replace(THREE_NINES, windows=(BurnWindow("page", 6 * HOUR_S, 1800, 0.10),))
    assert len(replayed(bad, total).pages) == 1
    assert replayed(bad, total, slow).episodes == ()


def test_history_before_the_range_fills_windows_and_has_no_results() -> None:
    bad, total = traffic(10)
    bad[2 * DAY : 2 * DAY + 30] = total[2 * DAY : 2 * DAY + 30]
    found = replayed(bad, total, judged_from_s=8 * DAY_S)
    assert found.pages == []
    assert found.from_s == 8 * DAY_S
    assert found.judged.left_share[8 * DAY] < 0


def test_an_incident_may_be_open_where_history_ends() -> None:
    bad, total = traffic(5)
    bad[-10:] = total[-10:]
    found = replayed(bad, total)
    assert found.episodes[-1].closed_s is None
    assert found.pages[-1].closed_s is None


def test_a_calendar_period_has_a_new_budget_on_its_first_day() -> None:
    start = int(datetime(2026, 1, 1).timestamp()) - int(datetime(1970, 1, 1).timestamp())
    monthly = replace(THREE_NINES, period=Calendar("month", datetime(2026, 1, 1), "UTC"))
    bad, total = traffic(40)
    bad[: 30 * DAY] = 5
    found = replayed(bad, total, monthly, start_s=start)
    assert found.judged.left_share[30 * DAY - 1] == pytest.approx(1 - 5)
    assert found.judged.left_share[31 * DAY] == 1.0


def test_a_window_longer_than_the_period_is_refused() -> None:
    daily = replace(THREE_NINES, period=Rolling(DAY_S))
    with pytest.raises(ValueError, match="use shorter windows"):
        replayed(*traffic(2), daily)


def test_no_history_is_no_incident() -> None:
    found = replayed(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert (found.episodes, found.left_share, found.exhausted_s, found.warning_s) == ((), 1.0, None, None)


def test_more_bad_than_all_is_refused() -> None:
    with pytest.raises(ValueError, match="count every bad event"):
        History(0, 60, np.array([2]), np.array([1]), 0)
