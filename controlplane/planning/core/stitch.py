"""One forecast out of those of several horizons."""

from collections.abc import Sequence

import numpy as np

from forecasting.forecast import LEVELS, Forecast


def stitched(forecasts: Sequence[Forecast], least_step_s: int) -> Forecast | None:
    """At each time the forecast with the shortest horizon that covers it; None without any.

    Shorter ones know more of what is near. Its step is the shortest of those from `least_step_s` on; finer forecasts are left out,
    unless there are no others. It is named after the nearest.
    """
    usable = [each for each in forecasts if len(each) and each.step_s >= least_step_s] or [
        f for f in forecasts if len(f)
    ]
    if not usable:
        return None
    usable.sort(key=lambda each: each.end_s - each.start_s)
    step_s = min(each.step_s for each in usable)
    start_s = min(each.start_s for each in usable) // step_s * step_s
    times_s = np.arange(start_s, max(each.end_s for each in usable), step_s)
    table = np.full((len(LEVELS), len(times_s)), np.nan)
    for each in reversed(usable):
        inside = (times_s >= each.start_s) & (times_s < each.end_s)
        at = (times_s[inside] - each.start_s) // each.step_s
        table[:, inside] = np.stack([each.quantiles[level] for level in LEVELS])[:, at]
    known = np.flatnonzero(~np.isnan(table[0]))
    nearest = known[np.minimum(np.searchsorted(known, np.arange(len(times_s))), len(known) - 1)]
    table = table[:, nearest]  # a gap between two of them takes what follows it
    first = usable[0]
    return Forecast(start_s, step_s, dict(zip(LEVELS, table, strict=True)), first.candidate, first.skill, first.reason)
