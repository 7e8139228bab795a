"""What forecasts where no candidate has earned its use: last value for a while, and beyond it the season that history carries."""

from collections.abc import Mapping, Sequence

import numpy as np

from forecasting.calendar import DAY_S, WEEK_S
from forecasting.candidates import CANDIDATES
from forecasting.candidates.history import Candidate, History, Ints
from forecasting.candidates.level import last_day_peak
from forecasting.series import F64

FLAT_UNTIL_S = 2 * 3600
"""The longest horizon at which the last value may stand in: beyond it the hour of the day would decide what a week costs."""
NO_FORECAST = "last_day_peak"
"""Stands in beyond FLAT_UNTIL_S until a day was measured. It is no forecast, and says so."""
_SEASONS_S = {"seasonal_week": WEEK_S, "seasonal_day": DAY_S}
_STAND_INS: Mapping[str, Candidate] = {**CANDIDATES, NO_FORECAST: last_day_peak}


def stand_ins(history: History, horizon_s: int) -> tuple[str, ...]:
    """The names of what stands in at this horizon; of a step that one does not know, the next one does.

    Beyond FLAT_UNTIL_S these are the seasons that the history has in whole, none longer than the horizon but the day.
    """
    if horizon_s <= FLAT_UNTIL_S:
        return ("last_value",)
    span_s = history.steps * history.series.step_s
    carried = (name for name, s in _SEASONS_S.items() if s <= max(horizon_s, DAY_S) and s <= span_s)
    return (*carried, NO_FORECAST)


def stood_in(history: History, names: Sequence[str], origins: Ints, leads: Ints) -> F64:
    """What `names` expect together (origins × leads). NaN where nothing was measured."""
    paths = np.full((len(origins), len(leads)), np.nan)
    for name in names:
        paths = np.where(np.isnan(paths), _STAND_INS[name](history, origins, leads), paths)
    return paths
