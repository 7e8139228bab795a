"""Candidates: functions from a history, origins and leads to what they expect. None sees what came after its origin."""

from collections.abc import Mapping, Sequence

from forecasting.candidates.curves import PROPHET, PROPHET_AND_WEEK, Curve
from forecasting.candidates.curves import prophet as from_curves
from forecasting.candidates.history import Candidate, History, Ints
from forecasting.candidates.level import last_value, level_trend
from forecasting.candidates.seasonal import profile_day, profile_week, seasonal_day, seasonal_week
from forecasting.series import F64

CANDIDATES: Mapping[str, Candidate] = {
    candidate.__name__: candidate
    for candidate in (last_value, level_trend, seasonal_day, seasonal_week, profile_day, profile_week)
}
"""Those that need no fit, by name."""


def candidates(curves: Sequence[Curve]) -> Mapping[str, Candidate]:
    """All of them, where Prophet was fitted with it: alone, and in the mean with the other one that knows weeks."""
    if not curves:
        return CANDIDATES

    def alone(history: History, origins: Ints, leads: Ints) -> F64:
        return from_curves(history, curves, origins, leads)

    def mean(history: History, origins: Ints, leads: Ints) -> F64:
        both: F64 = (alone(history, origins, leads) + profile_week(history, origins, leads)) / 2
        return both

    return {**CANDIDATES, PROPHET: alone, PROPHET_AND_WEEK: mean}
