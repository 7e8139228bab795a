"""The gate: which candidate has earned its use, by its losses in the backtest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.backtest import Backtest
from forecasting.candidates.history import Ints
from forecasting.intervals import calibrated, pinball
from forecasting.series import F64

BASELINE = "last_value"
"""What a candidate has to beat up to two hours ahead. Beyond it is the seasonal naive that history carries (`forecasting.refresh`)."""
MIN_SKILL = 0.05
"""The skill that a candidate needs to be used."""
REPLACES = 0.03
"""The share of the incumbent's loss that a challenger saves at least, so that candidates do not alternate."""
MIN_ORIGINS = 50
MIN_SHARE = 0.5
"""The share of the backtest that a candidate has to have forecast: a good day or two proves little."""
BLOCKS = 8
SURE = 1.5
"""The backtest is cut into BLOCKS of time. A candidate has to win by more than SURE standard errors between them."""
GIVES_BACK = 0.1
"""The share of what a candidate has saved in the backtest that it may have lost again over any newest stretch."""
TIES = 0.005
"""The share of the baseline's errors that counts as none: a whole day or week ahead, last value is a seasonal candidate but for gaps."""
FEW_HORIZONS = 16
"""A backtest of fewer horizons lets a new candidate have lost a third of that: it would see its mistake a horizon later."""
OUTWEIGHS = 0.5
"""The skill over the far half of the horizon that needs no proof at its end: the baseline may be as good at whole days or weeks."""
_STUDENT_95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89)
"""Quantiles of Student's t at 95 %, for 1 to BLOCKS - 1 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a candidate did in the backtest over the far half of the horizon.

    `loss` is the mean pinball loss in the series' unit, `skill` 1 - loss / the loss of the baseline at the same times,
    `margin` the standard error of that skill, `wape` the sum of absolute errors of the median over the sum of demand.
    `holds` is false where its median lost to the baseline at the horizon itself, in all or of late; `proven` where what it
    saved there may be chance. `note` says why there is no score, or why it does not hold or is not proven.
    """

    candidate: str
    loss: float | None = None
    skill: float | None = None
    margin: float | None = None
    wape: float | None = None
    origins: int = 0
    note: str = ""
    holds: bool = True
    proven: bool = True

    @property
    def earns(self) -> bool:
        """It beats the baseline by enough, and not by chance."""
        return (
            self.skill is not None
            and self.margin is not None
            and self.holds
            and self.skill >= (MIN_SKILL if self.proven else OUTWEIGHS)
            and self.skill > SURE * self.margin
        )


def scores(backtest: Backtest, baseline: str = BASELINE) -> tuple[Score, ...]:
    """The score of every candidate, each with the band that its errors call for."""
    bands = {
        name: calibrated(path, backtest.actual, backtest.origins, backtest.leads)
        for name, path in backtest.expected.items()
    }
    losses = {
        name: _far(backtest, pinball(backtest.actual, band.around(backtest.expected[name], backtest.leads)))
        for name, band in bands.items()
    }
    return tuple(_score(name, backtest, losses, baseline) for name in backtest.expected)


def winner(
    ranked: Sequence[Score], incumbent: str | None, span_steps: int, steps: int, baseline: str = BASELINE
) -> tuple[Score, str]:
    """The candidate to use, and why, as a plain sentence.

    `span_steps` is how long the backtest is, `steps` the horizon. The baseline wins where nothing has earned its use.
    The incumbent stays while it holds, its skill is above 0 and nothing is better by REPLACES.
    """
    by_name = {score.candidate: score for score in ranked}
    beaten, used = by_name[baseline], f"{words(baseline).capitalize()} is used"
    if beaten.origins < MIN_ORIGINS or span_steps < 2 * steps:
        return beaten, f"{used}: the history is too short to compare forecasts at this horizon."
    if not beaten.loss:
        return beaten, f"{used}: it made no error, because demand did not change."
    rivals = [score for score in ranked if score.candidate != baseline and score.skill is not None]
    best = max((score for score in rivals if score.earns), key=lambda score: score.skill or 0.0, default=None)
    present = by_name.get(incumbent or "")
    if present is not None and present.candidate != baseline and present.holds and (present.skill or 0.0) > 0:
        if best is None or (1 - (best.skill or 0.0)) > (1 - REPLACES) * (1 - (present.skill or 0.0)):
            return present, f"{_lost(present, baseline)}, and nothing was better by {REPLACES:.0%}."
        return best, f"{_lost(best, baseline)}: more than {words(present.candidate)}, which was used until now."
    demoted = ""
    if present is not None and present.candidate != baseline:
        demoted = f" {words(present.candidate).capitalize()} no longer earned its use."
    if best is not None:
        return best, f"{_lost(best, baseline)}.{demoted}"
    closest = max(rivals, key=lambda score: score.skill or 0.0, default=None)
    if closest is None:
        return beaten, f"{used}: no other candidate could be scored.{demoted}"
    if closest.note:
        return beaten, f"{used}: {words(closest.candidate)} cannot be relied on. {closest.note}{demoted}"
    return beaten, (
        f"{used}: the closest candidate, {words(closest.candidate)}, has a skill of {closest.skill or 0.0:.1%}"
        f" ± {closest.margin or 0.0:.1%}, and {MIN_SKILL:.0%} is needed.{demoted}"
    )


def why_not(score: Score, chosen: Score) -> str:
    """Why a candidate is not used where `chosen` won the same backtest; empty of the chosen one."""
    if score == chosen:
        return ""
    if score.note:
        return score.note
    if score.skill is None:
        return "It was not compared."
    if _is_baseline(score):
        return "It is what others have to beat."
    if not score.earns:
        return f"Its skill is {score.skill:.1%} ± {score.margin or 0.0:.1%}: {MIN_SKILL:.0%} are needed, and not by chance."
    if _is_baseline(chosen):
        return "The history is too short to rely on it."
    return f"It is not better by {REPLACES:.0%} than {words(chosen.candidate)}."


def _is_baseline(score: Score) -> bool:
    return score.skill == 0 and score.margin == 0


def words(candidate: str) -> str:
    """The name of a candidate within a sentence."""
    return candidate.replace("_", " ")


def _lost(score: Score, baseline: str) -> str:
    saved = f"lost {score.skill or 0.0:.0%} less than {words(baseline)}"
    return f"{words(score.candidate)} {saved} in {score.origins} backtested forecasts"


def _far(backtest: Backtest, losses: F64) -> F64:
    """The losses at the leads of the far half of the horizon."""
    return losses[:, backtest.leads * 2 >= backtest.leads[-1]]


def _score(name: str, backtest: Backtest, losses: dict[str, F64], baseline: str) -> Score:
    own, other = losses[name], losses[baseline]
    both = ~np.isnan(own) & ~np.isnan(other)
    rows = np.flatnonzero(both.any(axis=1))
    if len(rows) < max(MIN_ORIGINS, MIN_SHARE * int((~np.isnan(other)).any(axis=1).sum())):
        return Score(name, origins=len(rows), note="It knew too little to be compared.")
    own, other = np.where(both, own, 0.0), np.where(both, other, 0.0)
    loss, beaten = float(own.sum() / both.sum()), float(other.sum() / both.sum())
    actual, expected = _far(backtest, backtest.actual), _far(backtest, backtest.expected[name])
    demand = float(np.abs(actual[both]).sum())
    wape = float(np.abs(actual[both] - expected[both]).sum()) / demand if demand > 0 else None
    if beaten == 0:
        return Score(name, loss, 0.0 if loss == 0 else None, 0.0, wape, len(rows))
    saved = np.array([(other[block] - own[block]).sum() / both[block].sum() for block in np.array_split(rows, BLOCKS)])
    independent = _independent(backtest, rows)
    margin = float(saved.std(ddof=1) / np.sqrt(independent) / beaten)
    note, holds = _at_horizon(backtest, name, baseline)
    return Score(name, loss, 1 - loss / beaten, margin, wape, len(rows), note, holds, proven=not note)


def _independent(backtest: Backtest, rows: Ints) -> float:
    """How many of the blocks are independent: where they are shorter than the horizon, there are as many as horizons."""
    span = backtest.origins[rows[-1]] - backtest.origins[rows[0]]
    return float(min(BLOCKS, max(1.0, span / backtest.leads[-1])))


def _at_horizon(backtest: Backtest, name: str, baseline: str) -> tuple[str, bool]:
    """What the errors of the median at the horizon itself say against a candidate that wins over its far half, and whether it holds.

    A change shows first in the newest errors, while the mean of the backtest is still good: the largest sum over any newest
    stretch is Page's statistic (1954, Continuous inspection schemes, section 2.2), here of what was lost to the baseline.
    """
    actual = backtest.actual[:, -1]
    own, other = (np.abs(actual - backtest.expected[each][:, -1]) for each in (name, baseline))
    rows = np.flatnonzero(~np.isnan(own) & ~np.isnan(other))
    if len(rows) < BLOCKS:
        return "It knew too little at the horizon itself.", True
    saved, tie = (other - own)[rows], TIES * float(other[rows].sum())
    total, lately = float(saved.sum()), float(np.cumsum(-saved[::-1]).max())
    if total < -tie:
        return f"It lost to {words(baseline)} at the horizon itself.", False
    if lately > max(GIVES_BACK * total, tie):
        return f"It lost to {words(baseline)} of late.", False
    few = backtest.origins[rows[-1]] - backtest.origins[rows[0]] < FEW_HORIZONS * backtest.leads[-1]
    if few and lately > max(GIVES_BACK / 3 * total, tie):
        return f"It lost to {words(baseline)} of late, and few horizons have passed.", True
    independent = _independent(backtest, rows)
    margin = float(np.std([block.mean() for block in np.array_split(saved, BLOCKS)], ddof=1) / np.sqrt(independent))
    sure = np.interp(independent - 1, np.arange(1, BLOCKS), _STUDENT_95)
    if (total + tie) / len(rows) < sure * margin:
        return "What it saved at the horizon itself may be chance.", True
    return "", True
