"""Replays of known histories."""

import numpy as np
import pytest

from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow
from controlplane.slo.replay.core.episodes import Replay, replay
from controlplane.slo.replay.core.history import History

MINUTE = 60
DAY = DAY_S // MINUTE  # in steps
THREE_NINES = Objective("shop", "Shop", Availability(), 0.999)


def traffic(days: int) -> tuple[np.ndarray, np.ndarray]:
    """Bad and total by minute: a thousand, all good."""
    return np.zeros(days * DAY, np.int64), np.full(days * DAY, 1_000, np.int64)


def replayed(bad: np.ndarray, total: np.ndarray, judged_from_s: int = 0) -> Replay:
    return replay(History(0, MINUTE, bad, total, judged_from_s), THREE_NINES)


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


def test_history_before_the_range_fills_windows_and_has_no_results() -> None:
    bad, total = traffic(10)
    bad[2 * DAY : 2 * DAY + 30] = total[2 * DAY : 2 * DAY + 30]
    found = replayed(bad, total, judged_from_s=8 * DAY_S)
    assert found.pages == []
    assert found.from_s == 8 * DAY_S
    assert found.judged.left_share[8 * DAY] < 0


def test_no_history_is_no_incident() -> None:
    found = replayed(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert (found.episodes, found.left_share, found.exhausted_s, found.warning_s) == ((), 1.0, None, None)
