"""The gate: which candidate has earned its use, by its losses in the backtest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.backtest import Backtest
from forecasting.intervals import calibrated, pinball
from forecasting.series import F64

BASELINE = "last_value"
EARNS = 0.05
"""The skill that a candidate needs to be used."""
REPLACES = 0.03
"""The share of the incumbent's loss that a challenger saves at least, so that candidates do not alternate."""
FEWEST_ORIGINS = 50
LEAST_SHARE = 0.5
"""The share of the backtest that a candidate has to have forecast: a good day or two proves little."""
BLOCKS = 8
SURE = 1.5
"""The backtest is cut into BLOCKS of time. A candidate has to win by more than SURE standard errors between them."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a candidate did in the backtest over the far half of the horizon.

    `loss` is the mean pinball loss in the series' unit, `skill` 1 - loss / the loss of last value at the same times,
    `margin` the standard error of that skill, `wape` the sum of absolute errors of the median over the sum of demand.
    `note` says why there is no score.
    """

    candidate: str
    loss: float | None = None
    skill: float | None = None
    margin: float | None = None
    wape: float | None = None
    origins: int = 0
    note: str = ""

    @property
    def earns(self) -> bool:
        """It beats last value by enough, and not by chance."""
        return (
            self.skill is not None
            and self.margin is not None
            and self.skill >= EARNS
            and self.skill > SURE * self.margin
        )


def scores(backtest: Backtest) -> tuple[Score, ...]:
    """The score of every candidate, each with the band that its errors call for."""
    bands = {
        name: calibrated(path, backtest.actual, backtest.origins, backtest.leads)
        for name, path in backtest.expected.items()
    }
    losses = {
        name: _far(backtest, pinball(backtest.actual, band.around(backtest.expected[name], backtest.leads)))
        for name, band in bands.items()
    }
    return tuple(_score(name, backtest, losses) for name in backtest.expected)


def winner(ranked: Sequence[Score], incumbent: str | None, span_steps: int, steps: int) -> tuple[Score, str]:
    """The candidate to use, and why, as a plain sentence.

    `span_steps` is how long the backtest is, `steps` the horizon. Last value wins where nothing has earned its use.
    The incumbent stays while its skill is above 0 and nothing is better by REPLACES.
    """
    by_name = {score.candidate: score for score in ranked}
    baseline = by_name[BASELINE]
    if baseline.origins < FEWEST_ORIGINS or span_steps < 2 * steps:
        return baseline, "Last value is used: the history is too short to compare forecasts at this horizon."
    if not baseline.loss:
        return baseline, "Last value is used: it made no error, because demand did not change."
    rivals = [score for score in ranked if score.candidate != BASELINE and score.skill is not None]
    best = max((score for score in rivals if score.earns), key=lambda score: score.skill or 0.0, default=None)
    present = by_name.get(incumbent or "")
    if present is not None and present.candidate != BASELINE and (present.skill or 0.0) > 0:
        if best is None or (1 - (best.skill or 0.0)) > (1 - REPLACES) * (1 - (present.skill or 0.0)):
            return present, f"{_lost(present)}, and nothing was better by {REPLACES:.0%}."
        return best, f"{_lost(best)}: more than {present.candidate}, which was used until now."
    demoted = f" {incumbent} no longer earned its use." if present is not None and incumbent != BASELINE else ""
    if best is not None:
        return best, f"{_lost(best)}.{demoted}"
    closest = max(rivals, key=lambda score: score.skill or 0.0, default=None)
    if closest is None:
        return baseline, f"Last value is used: no other candidate could be scored.{demoted}"
    return baseline, (
        f"Last value is used: the closest candidate, {closest.candidate}, has a skill of {closest.skill or 0.0:.1%}"
        f" ± {closest.margin or 0.0:.1%}, and {EARNS:.0%} is needed.{demoted}"
    )


def _lost(score: Score) -> str:
    return (
        f"{score.candidate} lost {score.skill or 0.0:.0%} less than last value in {score.origins} backtested forecasts"
    )


def _far(backtest: Backtest, losses: F64) -> F64:
    """The losses at the leads of the far half of the horizon."""
    return losses[:, backtest.leads * 2 >= backtest.leads[-1]]


def _score(name: str, backtest: Backtest, losses: dict[str, F64]) -> Score:
    own, other = losses[name], losses[BASELINE]
    both = ~np.isnan(own) & ~np.isnan(other)
    rows = np.flatnonzero(both.any(axis=1))
    if len(rows) < max(FEWEST_ORIGINS, LEAST_SHARE * int((~np.isnan(other)).any(axis=1).sum())):
        return Score(name, origins=len(rows), note="It knew too little to be compared.")
    own, other = np.where(both, own, 0.0), np.where(both, other, 0.0)
    loss, baseline = float(own.sum() / both.sum()), float(other.sum() / both.sum())
    actual, expected = _far(backtest, backtest.actual), _far(backtest, backtest.expected[name])
    demand = float(np.abs(actual[both]).sum())
    wape = float(np.abs(actual[both] - expected[both]).sum()) / demand if demand > 0 else None
    if baseline == 0:
        return Score(name, loss, 0.0 if loss == 0 else None, 0.0, wape, len(rows))
    saved = np.array([(other[block] - own[block]).sum() / both[block].sum() for block in np.array_split(rows, BLOCKS)])
    # Blocks shorter than the horizon are not independent: then there are only as many as there are horizons.
    span = backtest.origins[rows[-1]] - backtest.origins[rows[0]]
    independent = min(BLOCKS, max(1.0, span / float(backtest.leads[-1])))
    margin = float(saved.std(ddof=1) / np.sqrt(independent) / baseline)
    return Score(name, loss, 1 - loss / baseline, margin, wape, len(rows))
