"""The quarterly worksheet: what each region needs in each month."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.capacity.assumptions import HOUR_S
from forecasting.capacity.months import hours_by_month
from forecasting.capacity.plan import NO_BASIS, Basis, Plan, PoolPlan
from forecasting.series import F64, I64


@dataclass(frozen=True, slots=True)
class WorksheetRow:
    """A region in a month of UTC, or in the whole quarter. Figures are of requests that replicas answer. Of `unforecast` pools nothing
    says what is to come: peak and tokens are of the others, None where there are none. Of `unpriced` pools no cost is counted.

    `batching_factor` is the mean number of requests that a replica works on in the busiest hour, None where no capacity was
    measured with one. `lines_cost_usd` is of it that of replicas for work that is open now and can wait. `covered_hours` is how many
    hours of the month the plan has, `basis` who forecast them.
    """

    region: str  # empty: all regions
    month: str  # such as 2026-11; empty: the quarter
    peak_rps: float | None
    input_tokens: float | None
    output_tokens: float | None
    batching_factor: float | None
    peak_replicas: int
    peak_gpus: int
    gpu_hours: float
    cost_usd: float
    lines_cost_usd: float
    covered_hours: int
    basis: Basis = NO_BASIS
    unforecast: int = 0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class Worksheet:
    """Rows by region and month, then each region's quarter, then the quarter of all regions."""

    quarter: str  # such as 2026-Q4
    rows: tuple[WorksheetRow, ...]
    notes: tuple[str, ...] = ()


def worksheet(plan: Plan) -> Worksheet:
    """The plan of a quarter (`months.quarter_hours`) by region and month, in whole hours."""
    months, unforecast = list(hours_by_month(plan.start_s, plan.hours)), plan.unforecast
    regions = sorted({pool.assumptions.region for pool in plan.pools})
    rows = []
    for region in regions:
        pools = [pool for pool in plan.pools if pool.assumptions.region == region]
        rows += [_row(pools, region, month.month, slice(month.start, month.stop), unforecast) for month in months]
    whole = slice(0, plan.hours)
    for region in regions:
        rows.append(_row([p for p in plan.pools if p.assumptions.region == region], region, "", whole, unforecast))
    rows.append(_row(plan.pools, "", "", whole, unforecast))
    first = months[0].month if months else ""
    quarter = f"{first[:4]}-Q{(int(first[5:]) + 2) // 3}" if first else ""
    return Worksheet(quarter, tuple(rows), plan.notes)


def _row(pools: Sequence[PoolPlan], region: str, month: str, hours: slice, unforecast: Container[str]) -> WorksheetRow:
    count = len(range(*hours.indices(len(pools[0].replicas)))) if pools else 0
    if not count:
        return WorksheetRow(region, month, None, None, None, None, 0, 0, 0.0, 0.0, 0.0, 0)
    requests_per_s = _sum(pool.requests_per_s[hours] for pool in pools)
    forecast = [pool for pool in pools if pool.pool not in unforecast]
    busiest = int(requests_per_s.argmax()) + hours.start
    return WorksheetRow(
        region=region,
        month=month,
        peak_rps=float(requests_per_s.max()) if forecast else None,
        input_tokens=float(sum(pool.input_tokens_per_s[hours].sum() for pool in forecast) * HOUR_S)
        if forecast
        else None,
        output_tokens=float(sum(pool.output_tokens_per_s[hours].sum() for pool in forecast) * HOUR_S)
        if forecast
        else None,
        batching_factor=_batching_factor(pools, busiest),
        peak_replicas=int(_sum(pool.replicas[hours] for pool in pools).max()),
        peak_gpus=int(_sum(pool.replicas[hours] * pool.gpus_per_replica for pool in pools).max()),
        gpu_hours=float(_sum(pool.gpu_hours[hours] for pool in pools).sum()),
        cost_usd=float(_sum(pool.cost_usd[hours] for pool in pools).sum()),
        lines_cost_usd=float(_sum(pool.lines_cost_usd[hours] for pool in pools).sum()),
        covered_hours=count,
        basis=Basis.together(pool.basis for pool in pools),
        unforecast=len(pools) - len(forecast),
        unpriced=sum(pool.unpriced for pool in pools),
    )


def _sum(rows: Iterable[F64 | I64]) -> F64:
    total: F64 = np.sum(np.stack(list(rows)), axis=0, dtype=np.float64)
    return total


def _batching_factor(pools: Sequence[PoolPlan], hour: int) -> float | None:
    """The mean over the replicas of the pools whose batches were measured."""
    measured = [(pool.batching_factor[hour], pool.replicas[hour]) for pool in pools if pool.batching_factor is not None]
    replicas = sum(count for _, count in measured)
    return float(sum(batch * count for batch, count in measured) / replicas) if replicas else None
