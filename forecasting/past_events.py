"""What planned events with a factor have made of past demand. That an event was planned does not say that it happened."""

import numpy as np
import numpy.typing as npt

from forecasting.calendar import DAY_S, WEEK_S, Calendar
from forecasting.series import F64, Series

Bools = npt.NDArray[np.bool_]
COMPARED_S = (WEEK_S, DAY_S, -DAY_S, -WEEK_S)
"""How long before an event the demand is that it is compared with: the first of these at which some was measured."""


def without_events(series: Series, calendar: Calendar) -> F64:
    """The values as they would have been without the events.

    An event happened if demand was nearer to its factor than to none of it, in proportion. Of one that is over and has nothing to be
    compared with, what was usual is not known: its steps are gaps.
    """
    times_s, values = series.times_s(), series.values
    planned = calendar.factors(times_s, series.step_s) != 1
    made = [
        1 + (event.factor - 1) * share
        for event in calendar.events
        if event.factor is not None and (share := event.share_of(times_s, series.step_s)).any()
    ]
    lasting = [own[-1] != 1 for own in made]
    happened: list[bool | None] = [True] * len(made)
    for number in [*range(len(made)), *range(len(made))]:  # again, as those that overlap are told by each other
        others = [own for n, own in enumerate(made) if n != number and happened[n]]
        without = Series(series.start_s, series.step_s, values / np.prod([np.ones(len(values)), *others], axis=0))
        happened[number] = _happened(without, made[number], planned)
    for own, did, lasts in zip(made, happened, lasting, strict=True):
        if did or (did is None and lasts):
            values = values / own
        elif did is None:
            values = np.where(own == 1, values, np.nan)
    return values


def _happened(series: Series, own: F64, planned: Bools) -> bool | None:
    """Whether demand without the other events shows one that makes `own` of each step; None where nothing is there to tell."""
    usual = np.where(planned, np.nan, series.values)
    for before_s in COMPARED_S:
        steps = before_s // series.step_s
        then = np.full(len(series), np.nan)
        if abs(steps) < len(series):
            then[max(steps, 0) : len(series) + min(steps, 0)] = usual[max(-steps, 0) : len(series) - max(steps, 0)]
        both = (own != 1) & ~np.isnan(series.values) & ~np.isnan(then)
        came, base, wanted = (float(each[both].sum()) for each in (series.values, then, then * own))
        if base > 0:
            return came * came >= base * wanted if wanted > base else came * came <= base * wanted
    return None
