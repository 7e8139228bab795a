"""Reads demand from the store. Every function raises the errors of the store, and DatabaseError."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.utils import timezone

from controlplane.planning.core.series import demand_of, measured
from controlplane.planning.models.forecast import Measure
from controlplane.slo.core.gaps import Gap
from controlplane.slo.evaluate.gaps import Gaps
from controlplane.telemetry.core.demand_rows import COUNTS, DemandRows
from controlplane.telemetry.query import answers
from controlplane.telemetry.store.read.demand import SETTLED_S, STEP_S
from forecasting.demand import Demand, DemandKey
from forecasting.series import F64, Series

HISTORY_S = 35 * 86_400
"""What forecasts are made of: five weeks."""
MONTHS_S = 56 * 7 * 86_400
MONTHS_STEP_S = 3600
"""What candidates are compared over where they forecast by the hour or the day: 13 months, as long as demand is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Came:
    """What clients wanted per second, of one measure; requests/s of it that were shed, and that the cache answered; and beside it
    requests/s that were over a limit of their tenant or key.
    """

    wanted: Series
    shed: Series
    limited: Series
    from_cache: Series


def history(now_s: float | None = None, history_s: int = HISTORY_S) -> list[Demand]:
    """The demand of every model, tier and region up to now, in steps of STEP_S, the largest first."""
    to_s = int((time.time() if now_s is None else now_s) - SETTLED_S) // STEP_S * STEP_S
    from_s = max(0, to_s - history_s)
    store = answers.store()
    counted = store.submit_query(store.demand.steps, from_s, to_s)
    known = store.demand.known(from_s, to_s)
    rows = [row for row in counted.result() if row.counts["requests"].any()]
    rows.sort(key=lambda row: -float(row.counts["requests"].sum()))
    shares = {region: known.of(region) for region in {row.region for row in rows}}
    gaps = Gaps.known(timezone.now())
    return [_demand(row, from_s, STEP_S, shares[row.region], gaps) for row in rows]


class Months:
    """The demand of MONTHS_S by the hour, read by model, tier and region: of all at once it would not fit into memory."""

    def __init__(self) -> None:
        self._to_s = int(time.time() - SETTLED_S) // MONTHS_STEP_S * MONTHS_STEP_S
        self._from_s = max(0, self._to_s - MONTHS_S)
        self._known = answers.store().demand.known(self._from_s, self._to_s, MONTHS_STEP_S)
        self._gaps = Gaps.known(timezone.now())
        self._newest: Demand | None = None

    def of(self, key: DemandKey, measure: str) -> Series:
        if self._newest is None or self._newest.key != key:
            names = (key.model, key.tier, key.region)
            rows = answers.store().demand.steps(self._from_s, self._to_s, MONTHS_STEP_S, names)
            known = self._known.of(key.region)
            row = rows[0] if rows else _no_rows(*names)
            self._newest = _demand(row, self._from_s, MONTHS_STEP_S, known, self._gaps)
        return series_of(self._newest, measure)


def read(model: str, tier: str, region: str, measure: str, start_s: int, end_s: int, step_s: int) -> Came:
    """One series in a range, whose ends are rounded to whole steps of `step_s`, or of STEP_S where that is longer."""
    step_s = -(-step_s // STEP_S) * STEP_S
    from_s, to_s = start_s // step_s * step_s, max(start_s, end_s) // step_s * step_s
    store = answers.store()
    rows = store.demand.steps(from_s, to_s, step_s, (model, tier, region))
    known = store.demand.known(from_s, to_s, step_s).of(region)
    row = rows[0] if rows else _no_rows(model, tier, region)
    demand = _demand(row, from_s, step_s, known, Gaps.known(timezone.now()))
    return Came(series_of(demand, measure), demand.shed, demand.limited, demand.from_cache)


def _demand(row: DemandRows, from_s: int, step_s: int, known: F64, gaps: Sequence[Gap]) -> Demand:
    return demand_of(
        row, from_s, step_s, known * measured(gaps, {"model": row.model, "tier": row.tier}, from_s, step_s, len(known))
    )


def _no_rows(model: str, tier: str, region: str) -> DemandRows:
    return DemandRows(model, tier, region, np.zeros(0, np.int64), {name: np.zeros(0) for name in COUNTS})


def series_of(demand: Demand, measure: str) -> Series:
    match Measure(measure):
        case Measure.REQUESTS:
            return demand.requests
        case Measure.INPUT_TOKENS:
            return demand.input_tokens
        case Measure.OUTPUT_TOKENS:
            return demand.output_tokens


def hit_rate(demand: Demand) -> float:
    """The share of requests that the cache, or another request, answered: 0..1; 0 where there were none."""
    requests, cached = float(np.nansum(demand.requests.values)), float(np.nansum(demand.from_cache.values))
    return min(1.0, cached / requests) if requests > 0 else 0.0
