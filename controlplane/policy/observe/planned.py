"""What planning knows of pools: capacity, cold start, price and warm plan. Read in the background, because it takes longer than a tick."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.core.periodic import PeriodicThread
from controlplane.planning import inputs
from controlplane.planning.models import MeasuredPool
from controlplane.planning.open_work import open_work, planned_work
from controlplane.policy.core.observation import PoolPlan
from controlplane.policy.observe.core.plans import pool_plan
from forecasting.capacity.assumptions import HOUR_S, ReplicaCapacity
from forecasting.capacity.deadlines import WorkPlan
from forecasting.capacity.warm_plan import warm_plans

EVERY_S = 30.0
MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class PoolKnown:
    """What planning knows of a pool. None is unknown."""

    gpu: str = ""
    gpus_per_replica: int | None = None
    usd_per_replica_hour: float | None = None
    capacity: ReplicaCapacity | None = None
    cold_start_s: float | None = None
    objective: str = ""
    warm: PoolPlan | None = None
    lines_replicas: int | None = None
    lines_reason: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    at_ms: int | None = None
    pools: Mapping[str, PoolKnown] = field(default_factory=dict)

    def age_ms(self, now_ms: int) -> int | None:
        return None if self.at_ms is None else max(0, now_ms - self.at_ms)


def read(now_s: float) -> Planned:
    """All pools. Raises DatabaseError, and ValueError where a row was written without a form."""
    start_s = int(now_s) // HOUR_S * HOUR_S
    plan = inputs.plan_inputs(start_s, 1)
    longest_s = max((pool.cold_start.p90_s for pool in plan.pools), default=0.0)
    reach_s = int(now_s + longest_s + plan.margin_s)
    plan = inputs.plan_inputs(start_s, (reach_s - start_s) // HOUR_S + 2, reach_s=reach_s)
    objectives = dict(MeasuredPool.objects.values_list("pool__name", "objective"))
    warm = {each.pool: each for each in warm_plans(plan)} if plan.demands else {}
    pools, work = {}, {each.pool: each for each in planned_work(open_work(), now_s)}
    for pool in plan.pools:
        pools[pool.pool] = PoolKnown(
            gpu=pool.gpu,
            gpus_per_replica=pool.gpus_per_replica,
            usd_per_replica_hour=inputs.usd_per_replica_hour(pool, plan.usd_per_gpu_hour),
            capacity=pool.capacities.get(pool.gpu),
            cold_start_s=pool.cold_start.p90_s,
            objective=objectives.get(pool.pool, ""),
            lines_replicas=_for_lines(work.get(pool.pool), now_s),
            lines_reason=work[pool.pool].reason if pool.pool in work else "",
            warm=pool_plan(warm[pool.pool], plan, now_s) if pool.pool in warm else None,
        )
    return Planned(int(now_s * MS_PER_S), pools)


def _for_lines(work: WorkPlan | None, now_s: float) -> int | None:
    """One is kept where it is not known how many lines need: without any they would never be done, and nothing of them known."""
    if work is None:
        return None
    return (work.wanted_at(now_s) or None) if work.is_known else 1


class PlannedReader(PeriodicThread):
    """`planned()` is the newest that could be read."""

    def __init__(self) -> None:
        super().__init__("planned", self._read, EVERY_S)
        self._planned = Planned()

    def planned(self) -> Planned:
        return self._planned

    def _read(self) -> None:
        self._planned = read(time.time())
