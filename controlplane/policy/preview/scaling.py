"""Previews a pool's scaling policy: replays recorded traffic of its pool, with the revision and with what is in force (docs/scaling.md).

The simulator runs the same `decide` as the controller, with the forecasts that would have been known at each time. What cannot be
replayed is said instead of figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from controlplane.fleet import models as fleet
from controlplane.planning import demand, inputs
from controlplane.planning.calendars import Calendars
from controlplane.planning.core.measuring import judges
from controlplane.planning.measured import covering_pool
from controlplane.planning.models import GpuType, MeasuredPool, PlanSettings
from controlplane.policy.core.spec import Scaling, ScalingSpec
from controlplane.policy.foresight import Forecasts, Plans, forecasts, horizon_for
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview.common import DAY_S, PREVIEWED_S, CannotPreviewError, Report, in_force
from controlplane.policy.simulated import Simulated
from controlplane.slo.models import StoredObjective
from forecasting.capacity.assumptions import PoolAssumptions, ReplicaCapacity
from forecasting.capacity.demand_on_pools import shares
from forecasting.capacity.pool_capacity import replicas_of
from forecasting.demand import Demand, DemandKey
from forecasting.refresh import Limits, step_of
from forecasting.series import F64, Series
from forecasting.simulate.arrivals import Arrivals, Lengths, from_rates
from forecasting.simulate.fitted import USUAL_MIX, fitted_profile
from forecasting.simulate.outcome import Objective, Outcome
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay

MIN_S = DAY_S
"""Less recorded traffic than a day would say little of a policy."""
MAX_REQUESTS = 5_000_000
"""A preview replays so many at most, the newest: some minutes of work."""
BURSTINESS = 1.5
"""Coefficient of variation of the intervals between requests (ServeGen, arXiv 2505.09999)."""
FORECASTS_SHARE = 0.6
"""Of a preview's work, where there are forecasts to make."""
MEASURES = {"ttft": "ttft_s", "itl": "itl_s", "e2e": "e2e_s"}
"""What the simulator judges, by the measure of an objective."""
NOTE = (
    "Requests are drawn anew around the recorded rates. Replicas work as their measured capacity says, and start as fast as was "
    "measured. Use of KV cache, GPUs and CPUs, failures, quotas and other pools are left out."
)
LOWER_BOUND = (
    " What a replica carries beyond its lower bound is not known, and here it is nothing: more requests may be good, and with fewer "
    "replicas."
)
FORESIGHT = " Forecasts are made anew from what was known at each time, without Prophet and planned events."
NO_FORESIGHT = " Forecasts are left out: replicas of this pool take longer to start than forecasts in steps of {minutes} minutes reach."


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What is known of a pool and its traffic: `rates` are requests/s that reach its replicas, of which those from step `first` on are
    replayed."""

    pool: PoolAssumptions
    capacity: ReplicaCapacity
    cold_starts_s: tuple[float, ...]
    objective: Objective
    objective_slug: str
    rates: Series
    first: int
    lengths: Lengths
    usd_per_replica_hour: float | None

    @property
    def replayed(self) -> Series:
        rates = self.rates
        return Series(rates.start_s + self.first * rates.step_s, rates.step_s, rates.values[self.first :])


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The forecasts of the time that is replayed, and how plans are made of them."""

    forecasts: Forecasts
    level: float
    margin_s: int


def preview_scaling(revision: PolicyRevision, policy: Scaling, report: Report) -> dict[str, Any]:
    """What the revision would have done, beside what is in force. Raises CannotPreviewError, and the errors of the store."""
    report(0.0, "reads recorded traffic")
    spec = policy.spec
    known = _recorded(spec)
    current = in_force(revision, policy)
    sides = {"revision": spec} | ({"current": current[1].spec} if current else {})
    report(0.0, "fits the simulator to what a replica carries")
    profile = _profile(known)
    wants_forecasts = any(each.forecast == "auto" for each in sides.values())
    begin = FORECASTS_SHARE if wants_forecasts else 0.0
    foreseen = (
        _foreseen(known, lambda share: report(begin * share, "makes the forecasts of that time"))
        if wants_forecasts
        else None
    )
    replayed = known.replayed
    arrivals = from_rates(replayed, known.lengths, burstiness=BURSTINESS, seed=1)
    figures: dict[str, Any] = {}
    for number, (side, each) in enumerate(sides.items()):
        note = (
            f"replays {len(arrivals):,} requests with {'this revision' if side == 'revision' else 'what is in force'}"
        )

        def progress(share: float, done: float = number, note: str = note) -> None:
            report(begin + (1 - begin) * (done + share) / len(sides), note)

        figures[side] = _figures(_replayed(each, known, profile, arrivals, foreseen, progress), known)
    return {
        "kind": "Scaling",
        **figures,
        "current_revision": current[0].number if current else None,
        "objective": known.objective_slug,
        "target": known.objective.target,
        "days": round(len(replayed) * replayed.step_s / DAY_S, 2),
        "from_s": replayed.start_s,
        "to_s": replayed.end_s,
        "requests": len(arrivals),
        "note": _note(known, foreseen, wants_forecasts=wants_forecasts),
    }


def _recorded(spec: ScalingSpec) -> Recorded:
    pools = tuple(inputs.pools())
    pool = next((each for each in pools if each.pool == spec.pool), None)
    if pool is None:
        raise CannotPreviewError(f"pool {spec.pool!r} is disabled: enable it first")
    measured = MeasuredPool.objects.filter(pool__name=pool.pool).first()
    capacity = pool.capacities.get(pool.gpu)
    if capacity is None:
        reason = measured.reason if measured else ""
        raise CannotPreviewError(
            f"what a replica of {pool.pool!r} carries is not known: enter it at /admin/planning/poolcapacity/. {reason}".strip()
        )
    slug, objective = _objective(spec.objective or (measured.objective if measured else ""), pool.pool)
    rates, lengths = _traffic(pools, pool, capacity)
    usd_per_gpu_hour = dict(GpuType.objects.filter(name=pool.gpu).values_list("name", "usd_per_hour"))
    return Recorded(
        pool,
        capacity,
        tuple(measured.starts_s) if measured and measured.starts_s else (pool.cold_start.p90_s,),
        objective,
        slug,
        rates,
        first_replayed(rates),
        lengths,
        inputs.usd_per_replica_hour(pool, usd_per_gpu_hour),
    )


def _objective(slug: str, pool: str) -> tuple[str, Objective]:
    row = StoredObjective.objects.filter(slug=slug).first()
    if row is None:
        counted = judges(each.to_objective() for each in StoredObjective.objects.filter(enabled=True))
        served = fleet.Pool.objects.select_related("variant__model", "region").get(name=pool)
        covers = " or ".join(judge.slug for judge in covering_pool(served, counted) if judge.cut.measure in MEASURES)
        which = f"which objective judges pool {pool!r} is not measured yet: name {covers}" if covers else ""
        raise CannotPreviewError(f"{which or f'pool {pool!r} has no latency objective: name one'} as spec.objective")
    judge = next(iter(judges([row.to_objective()])), None)
    measure = MEASURES.get(judge.cut.measure) if judge else None
    if judge is None or measure is None:
        raise CannotPreviewError(f"objective {slug!r} is not of TTFT, ITL or E2E: name such a one as spec.objective")
    return slug, Objective(judge.target, **{measure: judge.cut.thresholds[0] / 1_000})


def _traffic(
    pools: Sequence[PoolAssumptions], pool: PoolAssumptions, capacity: ReplicaCapacity
) -> tuple[Series, Lengths]:
    """The requests/s that reach replicas of the pool, by its weight, as far back as forecasts look; and their lengths."""
    history = demand.history()
    parts = [shares(pools, each.key.model, each.key.region).get(pool.pool, 0.0) for each in history]
    rates = reached([(each, part) for each, part in zip(history, parts, strict=True) if part > 0])
    if rates is None or not np.nansum(rates.values[-PREVIEWED_S // rates.step_s :]) > 0:
        raise CannotPreviewError(
            f"no request that {pool.pool!r} would answer was recorded in the last 14 days: send some first"
        )
    recorded_s = np.isfinite(rates.values).sum() * rates.step_s
    if recorded_s < MIN_S:
        raise CannotPreviewError(
            f"only {recorded_s / 3_600:.3g} hours of traffic of {pool.pool!r} were recorded: preview it once there is a day of it"
        )
    usual = capacity.mix or USUAL_MIX
    inputs_mean, outputs_mean = _tokens([each for each, part in zip(history, parts, strict=True) if part > 0])
    return rates, Lengths.around(inputs_mean or usual.input_tokens, outputs_mean or usual.output_tokens)


def reached(demands: Sequence[tuple[Demand, float]]) -> Series | None:
    """Requests/s of these parts of the demands which the cache did not answer, from the first that was measured to the last; with a
    gap where none was. None where nothing was measured."""
    if not demands:
        return None
    table = np.stack([part * (each.requests.values - np.nan_to_num(each.from_cache.values)) for each, part in demands])
    measured = np.isfinite(table).any(axis=0)
    values: F64 = np.where(measured, np.maximum(np.nansum(table, axis=0), 0.0), np.nan)
    known = np.flatnonzero(measured)
    if not len(known):
        return None
    whole = demands[0][0].requests
    return Series(whole.start_s + int(known[0]) * whole.step_s, whole.step_s, values[known[0] : known[-1] + 1])


def _tokens(demands: Sequence[Demand]) -> tuple[float, float]:
    """The mean of a prompt and of an answer; 0 where none was recorded."""
    requests = sum(float(np.nansum(each.requests.values)) for each in demands)
    prompts = sum(float(np.nansum(each.input_tokens.values)) for each in demands)
    answers = sum(float(np.nansum(each.output_tokens.values)) for each in demands)
    return (prompts / requests, answers / requests) if requests else (0.0, 0.0)


def first_replayed(rates: Series, most: int = MAX_REQUESTS) -> int:
    """The first step that is replayed: 14 days back, or later where those have more requests than `most`. It is no gap."""
    steps = min(PREVIEWED_S // rates.step_s, len(rates))
    counts = np.cumsum(np.nan_to_num(rates.values[::-1][:steps]) * rates.step_s)
    begin = len(rates) - max(1, int(np.searchsorted(counts, most, side="right")))
    return begin + int(np.flatnonzero(np.isfinite(rates.values[begin:]))[0])


def _profile(known: Recorded) -> ReplicaProfile:
    capacity = known.capacity
    if capacity.batching_factor is not None:
        # A server may have many more slots than its load takes within the objective. The simulator's steps last as long with any batch:
        # with all of them a replica would carry a multiple of what was measured.
        capacity = replace(capacity, slots=None)
    profile = fitted_profile(capacity, known.lengths, known.objective, BURSTINESS)
    if profile is None:
        raise CannotPreviewError(
            f"no simulated replica of {known.pool.pool!r} keeps {known.objective_slug!r} at "
            f"{known.capacity.requests_per_s:.3g} requests/s: check what a replica carries, and the objective"
        )
    return profile


def _foreseen(known: Recorded, progress: Callable[[float], None]) -> Foreseen | None:
    """None where a replica takes longer to start than forecasts in steps of demand reach: they would not count."""
    settings, rates, pool = PlanSettings.current(), known.rates, known.pool
    horizon_s = horizon_for(pool.cold_start.p90_s + settings.margin_s, rates.step_s)
    if step_of(rates.step_s, horizon_s) != rates.step_s:
        return None
    # Events may have been entered afterwards. Prophet's fits of two weeks would take minutes, and the next candidate is a little worse.
    calendar = replace(Calendars().calendar_of(DemandKey(pool.model, "", pool.region)), events=())
    made = forecasts(
        rates, max(1, known.first), len(rates), horizon_s, calendar, Limits(prophet=False), progress=progress
    )
    return Foreseen(made, settings.level, settings.margin_s)


def _replayed(
    spec: ScalingSpec,
    known: Recorded,
    profile: ReplicaProfile,
    arrivals: Arrivals,
    foreseen: Foreseen | None,
    progress: Callable[[float], None],
) -> Outcome:
    policy = Simulated(
        spec,
        known.capacity,
        known.pool.cold_start.p90_s,
        gpus_per_replica=known.pool.gpus_per_replica,
        usd_per_replica_hour=known.usd_per_replica_hour,
        start_ms=known.replayed.start_s * 1_000,
    )
    if foreseen is not None:
        policy.plan = Plans(foreseen.forecasts, known.pool, foreseen.level, foreseen.margin_s)
    most = max(spec.max, 1)
    first_hour_rps = float(np.nanmean(known.replayed.values[: 3_600 // known.rates.step_s]))
    started = max(1, spec.min, replicas_of(first_hour_rps / spec.reactive.utilisation, known.capacity))
    pool = Pool(
        replace(profile, gpus=known.pool.gpus_per_replica),
        known.cold_starts_s,
        min_replicas=0,
        max_replicas=most,
        start_replicas=min(started, most),
    )
    return replay(arrivals, pool, policy, known.objective, progress=progress)


def _figures(outcome: Outcome, known: Recorded) -> dict[str, Any]:
    usd = known.usd_per_replica_hour
    return {
        "attainment": outcome.attainment if isfinite(outcome.attainment) else None,
        "gpu_hours": outcome.gpu_hours,
        "usd": None if usd is None else outcome.replica_hours * usd,
        "flaps": outcome.flaps,
        "changes": outcome.changes,
        "most_replicas": outcome.most_replicas,
    }


def _note(known: Recorded, foreseen: Foreseen | None, *, wants_forecasts: bool) -> str:
    gaps = float(np.isnan(known.replayed.values).mean())
    note = NOTE + (LOWER_BOUND if known.capacity.lower_bound else "")
    note += f" {gaps:.0%} of the time was not recorded: rates between are assumed." if gaps >= 0.005 else ""
    if wants_forecasts:
        note += FORESIGHT if foreseen else NO_FORESIGHT.format(minutes=known.rates.step_s // 60)
    return note
