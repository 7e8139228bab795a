"""Candidates: functions from a history, origins and leads to what they expect. None sees what came after its origin."""

from collections.abc import Mapping

from forecasting.candidates.history import Candidate
from forecasting.candidates.level import last_value, level_trend
from forecasting.candidates.seasonal import profile_day, profile_week, seasonal_day, seasonal_week

CANDIDATES: Mapping[str, Candidate] = {
    candidate.__name__: candidate
    for candidate in (last_value, level_trend, seasonal_day, seasonal_week, profile_day, profile_week)
}
"""Those that need no fit, by name. Prophet needs its curves: see `forecasting.refresh`."""
