"""The part of a warm plan that a tick needs."""

from controlplane.policy.core.observation import PoolPlan
from forecasting.capacity.assumptions import PlanInputs
from forecasting.capacity.demand_on_pools import shares, unread
from forecasting.capacity.plan import Basis
from forecasting.capacity.warm_plan import WarmPlan
from forecasting.gate import words

MS_PER_S = 1_000


def pool_plan(warm: WarmPlan, inputs: PlanInputs, now_s: float) -> PoolPlan | None:
    """The steps of `warm` from that of `now_s` on, as far as the forecasts reach; None where the pool has no capacity, no forecast that
    reaches so far, or one that cannot be read.

    A forecast that was not compared counts as no better than the baseline.
    """
    pool = next(each for each in inputs.pools if each.pool == warm.pool)
    served = [demand for demand in inputs.demands if warm.pool in shares(inputs.pools, demand.model, demand.region)]
    forecasts = [demand.requests for demand in served if len(demand.requests)]
    if not forecasts or warm.pool in unread(inputs) or pool.gpu not in pool.capacities:
        return None
    basis = Basis.of(served)
    first = max(0, int(now_s - warm.start_s) // warm.step_s)
    last = max(first, (min(forecast.end_s for forecast in forecasts) - warm.start_s) // warm.step_s)
    if first == last:
        return None
    return PoolPlan(
        pool=warm.pool,
        made_at_ms=min(forecast.start_s for forecast in forecasts) * MS_PER_S,
        start_ms=(warm.start_s + first * warm.step_s) * MS_PER_S,
        step_ms=warm.step_s * MS_PER_S,
        horizon_ms=warm.horizon_s * MS_PER_S,
        warm=tuple(warm.warm[first:last].tolist()),
        started=tuple(warm.started[first:last].tolist()),
        kept=tuple(warm.kept[first:last].tolist()),
        forecaster=words(basis.forecaster),
        skill=basis.skill or 0.0,
        level=inputs.level,
        reason=warm.reason,
    )
