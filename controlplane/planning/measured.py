"""Measures what plans rest on, as a job of the worker: what replicas carry, how long they take to start, how often the cache answers."""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import structlog
from django.utils import timezone

from controlplane.fleet.models import Pool
from controlplane.planning import demand, jobs
from controlplane.planning.core.measuring import (
    NS_PER_S,
    Judge,
    covering,
    judges,
    measured_by_objective,
    strictest,
    windows_of,
)
from controlplane.planning.models import MeasuredHitRate, MeasuredPool, PlanJob, PoolCapacity
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.replica_load import PoolLoad
from controlplane.telemetry.query import answers
from forecasting.capacity.replica_capacity import LoadWindows
from forecasting.demand import DemandKey

log = structlog.get_logger(__name__)

KIND = "measure"
EVERY = timedelta(hours=1)
DAYS = 7
"""How far back it looks: every hour of the week once."""
STARTS_DAYS = 28
STEP_S = 300
DAY_S = 86_400
SETTLED_S = 120
"""Requests that ended so long ago are in the ledger."""


def queue_if_due() -> PlanJob | None:
    """Queue it unless it was queued within EVERY."""
    now = timezone.now()  # what is later is of a clock that was ahead
    recent = PlanJob.objects.filter(kind=KIND, created_at__range=(now - EVERY, now)).exists()
    return None if recent else jobs.start(KIND)


@jobs.kind(KIND)
def measure(request: Mapping[str, Any], progress: jobs.Progress) -> dict[str, Any]:
    """Measure every pool and every demand. Returns how many of each."""
    now_s = int(time.time()) - SETTLED_S
    counted = judges(row.to_objective() for row in StoredObjective.objects.filter(enabled=True))
    loads = _loads(counted, now_s, progress)
    starts = _starts(now_s)
    measured = 0
    for pool in Pool.objects.select_related("capacity__gpu_type", "variant__model", "region", "measured"):
        measured += _measure(pool, loads.get(pool.name, {}), counted, starts.get(pool.name, []))
    known = demand.history(history_s=DAYS * DAY_S)
    now = timezone.now()
    for each in known:
        MeasuredHitRate.objects.update_or_create(
            model=each.key.model,
            tier=each.key.tier,
            region=each.key.region,
            defaults={"hit_rate": demand.hit_rate(each), "measured_at": now},
        )
    MeasuredHitRate.objects.filter(measured_at__lt=now).delete()
    return {
        "pools_measured": measured,
        "demands": len(known),
        "note": f"{measured} {'pool has' if measured == 1 else 'pools have'} a measured capacity",
    }


def hit_rates() -> dict[DemandKey, float]:
    """The newest measured hit rates."""
    return {DemandKey(row.model, row.tier, row.region): row.hit_rate for row in MeasuredHitRate.objects.all()}


def _loads(counted: list[Judge], now_s: int, progress: jobs.Progress) -> dict[str, dict[str, LoadWindows]]:
    """Windows by pool and objective. The ledger is read a day at a time, so that no query is long."""
    store = answers.store()
    by_pool: dict[str, dict[str, list[PoolLoad]]] = defaultdict(lambda: defaultdict(list))
    to_s = now_s // STEP_S * STEP_S
    days = [(to_s - (day + 1) * DAY_S, to_s - day * DAY_S) for day in range(DAYS)]
    for step, (judge, (from_s, until_s)) in enumerate((judge, day) for judge in counted for day in days):
        progress.report(step, len(counted) * DAYS, f"counts requests of objective {judge.slug}")
        for load in store.replicas.load(Window(from_s * NS_PER_S, until_s * NS_PER_S), judge.cut, judge.scope, STEP_S):
            by_pool[load.pool][judge.slug].append(load)
    return {
        pool: {slug: windows_of(each, STEP_S) for slug, each in by_slug.items()} for pool, by_slug in by_pool.items()
    }


def _starts(now_s: int) -> dict[str, list[float]]:
    """How long replicas of each pool took from creation to their first good answer, s. Where nothing says when a pool's replicas were
    created, how long its servers took to load the model, as their own spans say."""
    starts: dict[str, list[float]] = defaultdict(list)
    window = Window((now_s - STARTS_DAYS * DAY_S) * NS_PER_S, now_s * NS_PER_S)
    store = answers.store()
    for start in store.replicas.starts(window):
        if start.answered_ns is not None:
            starts[start.pool].append((start.answered_ns - start.created_ns) / NS_PER_S)
    loads: dict[str, list[float]] = defaultdict(list)
    for load in store.replicas.model_loads(window):
        loads[load.pool].append(load.duration_ns / NS_PER_S)
    return loads | starts


def _measure(pool: Pool, windows: Mapping[str, LoadWindows], counted: Sequence[Judge], starts_s: list[float]) -> bool:
    """Store what was measured of a pool; whether its capacity was."""
    own: PoolCapacity | None = getattr(pool, "capacity", None)
    gpu = own.gpu_type if own else None
    slots = [entry.slots for entry in own.entries.filter(gpu_type=gpu) if entry.slots] if own and gpu else []
    bases = {judge.slug: _basis(pool, own, judge) for judge in counted}
    before: MeasuredPool | None = getattr(pool, "measured", None)
    targets = {judge.slug: judge.target for judge in counted}
    outcomes = measured_by_objective(
        windows, targets, min(slots, default=None), before.known_of(bases) if before is not None else {}
    )
    objective, result = strictest(outcomes, [judge.slug for judge in covering_pool(pool, counted)], DAYS)
    capacity = result.capacity
    MeasuredPool.objects.update_or_create(
        pool=pool,
        defaults={
            "measured_at": timezone.now(),
            "gpu": gpu.name if gpu else "",
            "objective": objective,
            "capacity": {} if capacity is None else msgspec.to_builtins(capacity),
            "known": {
                slug: {"basis": bases[slug], "capacity": msgspec.to_builtins(each.capacity)}
                for slug, each in outcomes.items()
                if each.capacity is not None
            },
            "reason": result.reason,
            "starts_s": starts_s,
        },
    )
    log.info("pool.measured", pool=pool.name, objective=objective, reason=result.reason, starts=len(starts_s))
    return capacity is not None


def covering_pool(pool: Pool, counted: Iterable[Judge]) -> list[Judge]:
    return covering(counted, pool.variant.model.name, pool.variant.name, pool.name, pool.region.name)


def _basis(pool: Pool, own: PoolCapacity | None, judge: Judge) -> str:
    """What a capacity holds for: another replica, or another objective, is measured anew."""
    gpu = own.gpu_type.name if own and own.gpu_type else ""
    replica = (pool.variant.name, pool.model_name, pool.model_version, gpu, own.gpus_per_replica if own else 1)
    return hashlib.sha256(repr((replica, judge)).encode()).hexdigest()
