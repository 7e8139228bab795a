"""The gate: who is used, who is demoted, and why."""

from dataclasses import replace

import numpy as np
import pytest

from forecasting.backtest import Backtest, backtest, leads_of, origins_of
from forecasting.calendar import Calendar
from forecasting.candidates import CANDIDATES
from forecasting.candidates.history import History
from forecasting.gate import Score, scores, why_not, winner
from forecasting.series import F64
from tests.support.forecasting.made_up_demand import DAY, daily, series

BASELINE = Score("last_value", loss=2.0, skill=0.0, margin=0.0, origins=500)


def score(candidate: str, skill: float, margin: float = 0.01) -> Score:
    return Score(candidate, loss=2.0 * (1 - skill), skill=skill, margin=margin, origins=500)


def chosen(*rivals: Score, incumbent: str | None = None, span: int = 500, steps: int = 3) -> tuple[str, str]:
    best, reason = winner((BASELINE, *rivals), incumbent, span, steps)
    return best.candidate, reason


def test_the_candidate_with_the_most_skill_is_used() -> None:
    name, reason = chosen(score("profile_day", 0.3), score("prophet", 0.4))
    assert (name, reason) == ("prophet", "prophet lost 40% less than last value in 500 backtested forecasts.")


@pytest.mark.parametrize("rival", [score("prophet", 0.04), score("prophet", 0.2, margin=0.3), score("prophet", -2)])
def test_a_candidate_that_does_not_earn_its_use_is_not_used(rival: Score) -> None:
    name, reason = chosen(rival)
    assert name == "last_value"
    assert "the closest candidate, prophet, has a skill of" in reason


@pytest.mark.parametrize(
    ("rival", "used", "said"),
    [
        (score("prophet", 0.4), score("prophet", 0.4), ""),
        (score("prophet", 0.04), BASELINE, "Its skill is 4.0% ± 1.0%: 5% are needed, and not by chance."),
        (score("prophet", 0.4), BASELINE, "The history is too short to rely on it."),
        (score("prophet", 0.4), score("profile_day", 0.39), "It is not better by 3% than profile day."),
        (BASELINE, score("prophet", 0.4), "It is what others have to beat."),
        (Score("prophet", note="It knew too little."), BASELINE, "It knew too little."),
    ],
)
def test_each_candidate_has_its_reason_not_to_be_used(rival: Score, used: Score, said: str) -> None:
    assert why_not(rival, used) == said


def test_an_incumbent_that_no_longer_earns_is_demoted() -> None:
    name, reason = chosen(score("prophet", -0.02), incumbent="prophet")
    assert name == "last_value"
    assert reason.endswith("Prophet no longer earned its use.")


def test_an_incumbent_stays_while_it_is_known_and_earns_and_nothing_is_clearly_better() -> None:
    assert chosen(score("prophet", 0.30), score("profile_day", 0.31), incumbent="prophet")[0] == "prophet"
    assert chosen(score("prophet", 0.02), incumbent="prophet")[0] == "prophet"
    assert chosen(score("prophet", 0.30), score("profile_day", 0.40), incumbent="prophet")[0] == "profile_day"
    assert chosen(score("prophet", 0.3), incumbent="of_an_older_version")[0] == "prophet"


def test_a_short_backtest_proves_nothing() -> None:
    name, reason = chosen(score("prophet", 0.9), span=5, steps=3)
    assert (name, reason) == (
        "last_value",
        "Last value is used: the history is too short to compare forecasts at this horizon.",
    )


def test_scores_are_of_the_far_half_of_the_horizon_and_name_who_knew_too_little() -> None:
    known = series(daily(6))
    by_name = {each.candidate: each for each in scores(backtest(History(known, Calendar(), 12), CANDIDATES, 12))}
    assert by_name["seasonal_week"] == Score("seasonal_week", note="It knew too little to be compared.")
    assert by_name["last_value"].skill == 0
    assert (by_name["profile_day"].skill or 0) > (by_name["seasonal_day"].skill or 0) > 0.3


def test_a_skill_is_a_share_of_the_loss_of_last_value() -> None:
    """One candidate is off by 1 and the other by 4, at random: its loss is a quarter."""
    sign = np.random.default_rng(1).choice([-1.0, 1.0], (400, 1))
    actual = np.full((400, 1), 100.0)
    tested = Backtest(np.arange(400), np.array([1]), {"last_value": actual + 4 * sign, "near": actual + sign}, actual)
    near = scores(tested)[1]
    assert near.skill == pytest.approx(0.75, abs=0.01)
    assert near.wape == pytest.approx(0.01)


def test_origins_fall_on_all_times_of_the_day_and_leads_on_quarters_of_the_horizon() -> None:
    origins = origins_of(History(series(daily(60)), Calendar(), 6), 6)
    assert len(origins) <= 1000
    assert len(set(origins.tolist())) == len(origins)
    assert set(np.unique(origins % DAY)) == set(range(DAY))
    assert leads_of(12).tolist() == [1, 3, 6, 9, 12]
    assert leads_of(1).tolist() == [1]


def judged(saved: F64, steps: int = 1) -> Score:
    """The score of a candidate that saved so much of last value's error of 10, at each of its origins."""
    count = len(saved)
    actual, leads = np.full((count, 1), 100.0), np.array([steps])
    tested = Backtest(
        np.arange(count), leads, {"last_value": actual + 10, "rival": actual + (10 - saved)[:, None]}, actual
    )
    return next(each for each in scores(tested) if each.candidate == "rival")


def test_a_candidate_that_lost_of_late_does_not_hold_though_it_won_in_all() -> None:
    saved = np.full(800, 4.0)
    assert (judged(saved).holds, judged(saved).note) == (True, "")
    saved[-80:] = -5.0
    lost = judged(saved)
    assert (lost.holds, lost.note) == (False, "It lost to last value of late.")
    assert chosen(replace(score("prophet", 0.3), holds=False, note=lost.note), incumbent="prophet") == (
        "last_value",
        "Last value is used: prophet cannot be relied on. It lost to last value of late."
        " Prophet no longer earned its use.",
    )


def test_a_candidate_that_lost_at_the_horizon_itself_does_not_hold() -> None:
    """It wins over the far half of the horizon, and loses at its end."""
    actual = np.full((400, 2), 100.0)
    last, rival = actual + np.array([[30.0, 3.0]]), actual + np.array([[3.0, 4.0]])
    tested = Backtest(np.arange(400), np.array([1, 2]), {"last_value": last, "rival": rival}, actual)
    score = scores(tested)[1]
    assert (score.skill or 0) > 0.5
    assert (score.holds, score.note) == (False, "It lost to last value at the horizon itself.")


def test_what_few_independent_errors_show_is_not_proven_and_keeps_an_incumbent() -> None:
    """Half of the blocks save much and half nothing: enough where they are independent, and not where two of them are."""
    saved = np.repeat([9.0, 1.0], 400)
    assert judged(saved[::-1]).proven
    assert not judged(saved[::-1], steps=400).proven
    unproven = replace(score("prophet", 0.3), proven=False, note="What it saved at the horizon itself may be chance.")
    assert chosen(unproven)[0] == "last_value"
    assert chosen(unproven, incumbent="prophet")[0] == "prophet"
    assert chosen(replace(unproven, skill=0.5))[0] == "prophet"


def test_a_new_candidate_that_lost_of_late_waits_where_few_horizons_have_passed() -> None:
    saved = np.full(800, 4.0)
    saved[-40:] = -4.0
    assert judged(saved).proven
    waiting = judged(saved, steps=60)
    assert (waiting.holds, waiting.proven) == (True, False)
    assert waiting.note == "It lost to last value of late, and few horizons have passed."
