"""Puts together what a tick sees. Nothing here waits for anybody: what is slow is read in the background, and has an age."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec import structs

from controlplane.fleet.clusters.port import HAND, SLOTS, WEIR, ClusterSeen, PoolSeen
from controlplane.fleet.models import Fallback, Pool, Replica
from controlplane.policy.core.observation import (
    BurnFacts,
    CanaryCounts,
    ClusterFacts,
    GatewayFacts,
    Gpus,
    MetricFacts,
    ModelFacts,
    Observation,
    PoolFacts,
    Spent,
    TierFacts,
)
from controlplane.policy.core.spec import Canary, InForce, Scaling, ScalingSpec
from controlplane.policy.observe import objectives, people
from controlplane.policy.observe.core.levels import Level
from controlplane.policy.observe.core.tiers import tier_traffic
from controlplane.policy.observe.core.traffic import Traffic, pool_traffic
from controlplane.policy.observe.objectives import TierBurn
from controlplane.policy.observe.planned import Planned, PoolKnown
from controlplane.policy.observe.stages import Lost
from forecasting.capacity.capacity_memory import rps_of_tokens

MS_PER_S = 1_000
NS_PER_MS = 1_000_000
GATEWAY = "gateway:"
"""Begins the names of API tiers among the pools."""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """What the fleet says of a pool."""

    name: str
    model: str
    variant: str
    region: str
    cluster: str
    cluster_enabled: bool
    enabled: bool
    draining: int


@dataclass(frozen=True, slots=True)
class Background:
    """What is read beside the ticks."""

    traffic: Traffic = field(default_factory=Traffic)
    planned: Planned = field(default_factory=Planned)
    clusters: Mapping[str, ClusterSeen] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)
    canaries: Mapping[str, CanaryCounts] = field(default_factory=dict)
    stages: Mapping[tuple[str, str], Lost] = field(default_factory=dict)
    """By pool and objective, how many requests are bad and where they lose their time."""
    levels: Mapping[tuple[str, str], Level] = field(default_factory=dict)
    """By what is scaled and signal, how high a metric of the store is."""


def gather(now_ms: int, policies: Sequence[InForce], known: Background) -> Observation:
    """The observation of now, of the pools and models that `policies` are about. Raises DatabaseError."""
    now = datetime.fromtimestamp(now_ms / MS_PER_S, UTC)
    scaled = [policy.policy.spec for policy in policies if isinstance(policy.policy, Scaling)]
    of_models = {
        spec.model for policy in policies if not isinstance(policy.policy, Scaling) for spec in (policy.policy.spec,)
    }
    rows = _pool_rows()
    wanted = {spec.target for spec in scaled} | {name for name, row in rows.items() if row.model in of_models}
    wanted |= {policy.policy.spec.candidate for policy in policies if isinstance(policy.policy, Canary)}
    of_models |= {rows[name].model for name in wanted if name in rows}
    burns = objectives.read()
    pools = {name: _pool(name, rows.get(name), known, now_ms) for name in sorted(wanted)}
    pools |= _burning(scaled, pools, known.stages, now_ms)
    pools |= _measured(scaled, pools, known.levels, now_ms)
    return Observation(
        now_ms=now_ms,
        pools=pools,
        models=_models(of_models, rows, burns, known.traffic, now_ms),
        gateways=tuple(
            GatewayFacts(url, heard.age_ms(now_ms), heard.problem)
            for url, heard in sorted(known.traffic.gateways.items())
            if heard.ready
        ),
        clusters={
            name: _cluster(
                seen,
                {each.gpu: each.gpus_per_replica or 1 for each in pools.values() if each.cluster == name and each.gpu},
                now_ms,
            )
            for name, seen in sorted(known.clusters.items())
        },
        spent={name: known.spent[name] for name in sorted(wanted) if name in known.spent},
        plans={
            name: each.warm
            for name in sorted(wanted)
            if (each := known.planned.pools.get(name)) is not None and each.warm is not None
        },
        canaries=dict(known.canaries),
        pauses=tuple(people.pauses(now)),
        overrides=tuple(people.overrides(now)),
    )


def _pool_rows() -> dict[str, PoolRow]:
    draining = Counter(Replica.objects.filter(draining=True).values_list("pool__name", flat=True))
    rows = Pool.objects.values_list(
        "name", "variant__model__name", "variant__name", "region__name", "cluster__name", "cluster__enabled", "enabled"
    )
    return {
        name: PoolRow(name, model, variant, region, cluster or "", bool(cluster_enabled), enabled, draining[name])
        for name, model, variant, region, cluster, cluster_enabled, enabled in rows
    }


def _pool(name: str, row: PoolRow | None, known: Background, now_ms: int) -> PoolFacts:
    if name.startswith(GATEWAY):
        cluster, seen = next(
            ((cluster, each.pools[name]) for cluster, each in sorted(known.clusters.items()) if name in each.pools),
            ("", None),
        )
        urls = {replica.address.removesuffix("/v1") for replica in seen.replicas} if seen is not None else set()
        facts = structs.replace(known.traffic.of_gateways(name, urls, now_ms), cluster=cluster)
        return _counted(facts, seen, known.clusters.get(cluster), 0, now_ms)
    if row is None:
        return PoolFacts(name, problem="the fleet has no pool of this name: enter it, or correct the policy")
    planned = known.planned.pools.get(name, PoolKnown())
    traffic = pool_traffic(known.traffic, name, now_ms)
    capacity = planned.capacity
    facts = structs.replace(
        traffic,
        model=row.model,
        variant=row.variant,
        region=row.region,
        cluster=row.cluster,
        gpu=planned.gpu,
        gpus_per_replica=planned.gpus_per_replica,
        usd_per_replica_hour=planned.usd_per_replica_hour,
        capacity_rps=None if capacity is None else rps_of_tokens(capacity, traffic.input_tokens, traffic.output_tokens),
        capacity_source=capacity.source if capacity else "",
        capacity_is_lower_bound=capacity.lower_bound if capacity else False,
        capacity_replicas=capacity.measured_replicas if capacity else 1,
        batching_factor=capacity.batching_factor if capacity else None,
        slots=capacity.slots if capacity else None,
        lines_replicas=planned.lines_replicas,
        lines_reason=planned.lines_reason,
        cold_start_s=planned.cold_start_s,
        objective=planned.objective,
        disabled=not row.enabled,
        cluster_disabled=bool(row.cluster) and not row.cluster_enabled,
        capacity_age_ms=known.planned.age_ms(now_ms),
    )
    if not row.cluster:
        return structs.replace(facts, problem="no cluster runs it: choose the pool's cluster in the admin")
    its = known.clusters.get(row.cluster)
    warming = known.traffic.warming_in(name)
    return _counted(facts, its.pools.get(name) if its else None, its, row.draining, now_ms, warming)


def _burning(
    specs: Iterable[ScalingSpec], pools: Mapping[str, PoolFacts], stages: Mapping[tuple[str, str], Lost], now_ms: int
) -> dict[str, PoolFacts]:
    """The pools whose policies name an objective, with how fast it burns: in the worst of the scopes that have their requests."""
    wanted = {(spec.target, spec.objective) for spec in specs if spec.objective and spec.reactive.of_objective}
    burns = objectives.burning({slug for _, slug in wanted})
    facts: dict[str, PoolFacts] = {}
    for name, slug in sorted(wanted):
        pool = facts.get(name, pools[name])
        own = {"model": pool.model, "variant": pool.variant, "region": pool.region, "pool": name}
        rates = [
            burn
            for scope, burn in burns.get(slug, ())
            if all(value in (own.get(key, value), objectives.EVERY) for key, value in scope.items())
        ]
        lost = stages.get((name, slug))
        if rates or lost:
            known = [burn for burn in rates if burn.fast is not None]
            worst = max((burn.fast or 0.0 for burn in known), default=None)
            burn = BurnFacts(worst, _oldest_ms(known, now_ms), unjudged=len(known) < len(rates))
            if lost:
                age_ms = max(0, now_ms - lost.at_ms)
                burn = structs.replace(burn, stage=lost.stage, bad_share=lost.bad_share, bad_share_age_ms=age_ms)
            facts[name] = structs.replace(pool, burns={**pool.burns, slug: burn})
    return facts


def _measured(
    specs: Iterable[ScalingSpec], pools: Mapping[str, PoolFacts], levels: Mapping[tuple[str, str], Level], now_ms: int
) -> dict[str, PoolFacts]:
    """The pools whose policies name metrics of the store."""
    facts: dict[str, PoolFacts] = {}
    for spec in specs:
        pool = facts.get(spec.target, pools[spec.target])
        known = {key: levels[spec.target, key] for key in spec.reactive.stored if (spec.target, key) in levels}
        metrics = {
            key: MetricFacts(level.total, level.mean, max(0, now_ms - level.time_ns // NS_PER_MS))
            for key, level in known.items()
        }
        if metrics:
            facts[spec.target] = structs.replace(pool, metrics={**pool.metrics, **metrics})
    return facts


def _counted(
    facts: PoolFacts,
    seen: PoolSeen | None,
    cluster: ClusterSeen | None,
    draining: int,
    now_ms: int,
    warming: Container[str] = (),
) -> PoolFacts:
    """With the counts of replicas, as the cluster has them. Those that gateways are warming up count as starting."""
    if cluster is None or seen is None or cluster.seen_ms is None:
        return facts
    here = [replica for replica in seen.replicas if not replica.terminating]
    ending = len(seen.replicas) - len(here)
    pending = [replica for replica in here if replica.pending_reason and not replica.ready]
    failing = [replica for replica in here if replica.fault and not replica.ready and not replica.pending_reason]
    since = [replica.pending_since_ms for replica in pending if replica.pending_since_ms is not None]
    ready = sum(replica.ready and replica.name not in warming for replica in here)
    leaving = max(0, min(draining - ending, ready))
    each, usd = seen.gpus_per_replica or facts.gpus_per_replica, facts.usd_per_replica_hour
    if usd is not None and each and facts.gpus_per_replica:
        usd *= each / facts.gpus_per_replica
    return structs.replace(
        facts,
        gpus_per_replica=each,
        usd_per_replica_hour=usd,
        wanted=seen.wanted,
        ready=ready - leaving,
        starting=len(here) - ready - len(pending) - len(failing),
        draining=ending + leaving,
        pending=len(pending),
        pending_since_ms=min(since, default=None),
        pending_reason=pending[0].pending_reason if pending else "",
        failing=len(failing),
        failing_reason=failing[0].fault if failing else "",
        rollout=seen.rollout,
        rollout_stuck=seen.rollout_stuck,
        owner_of_count=_owner(seen),
        hpa_min=seen.autoscaler.min_replicas if seen.autoscaler else None,
        hpa_max=seen.autoscaler.max_replicas if seen.autoscaler else None,
        hpa_floor=seen.autoscaler.owner_min_replicas if seen.autoscaler else None,
        hpa_kept_by=seen.autoscaler.kept_by if seen.autoscaler else "",
        problem=seen.problem,
        cluster_age_ms=max(0, now_ms - cluster.seen_ms),
    )


def _owner(seen: PoolSeen) -> str:
    """Weir owns a count once it has set it. Until then a hand does, which is no second owner."""
    by_another = seen.owner_of_count == WEIR and seen.count_set_by not in ("", WEIR)
    return HAND if by_another else seen.owner_of_count


def _cluster(seen: ClusterSeen, per_replica: Mapping[str, int], now_ms: int) -> ClusterFacts:
    """A cluster counts GPUs by resource, and pools name types. Where it has one resource, that is the type of all its pools. A slot is
    the place of a replica, however many GPUs that has: `per_replica`, by type.
    """
    gpus = {
        name: Gpus(each.allocatable, each.requested, each.waiting_too)
        for name, each in seen.gpus.items()
        if name in per_replica
    }
    if len(seen.gpus) == 1:
        [(resource, only)] = seen.gpus.items()
        for name, each in per_replica.items():
            times = each if resource == SLOTS else 1
            gpus[name] = Gpus(only.allocatable * times, only.requested * times, only.waiting_too)
    return ClusterFacts(
        cluster=seen.cluster,
        age_ms=None if seen.seen_ms is None else max(0, now_ms - seen.seen_ms),
        problem=seen.problem if seen.seen_ms is None else "",
        gpus=dict(sorted(gpus.items())),
        why_old="" if seen.seen_ms is None else seen.problem,
    )


def _models(
    names: Iterable[str],
    rows: Mapping[str, PoolRow],
    burns: Mapping[tuple[str, str], list[TierBurn]],
    traffic: Traffic,
    now_ms: int,
) -> dict[str, ModelFacts]:
    """Of the models that the fleet has."""
    pools: dict[str, list[str]] = {}
    for name in sorted(rows):
        own = pools.setdefault(rows[name].model, [])
        if rows[name].enabled:
            own.append(name)
    fallbacks = Fallback.objects.order_by("position", "pool__name").values_list("model__name", "pool__name")
    for model, pool in fallbacks:
        if rows[pool].enabled and pool not in pools.setdefault(model, []):
            pools[model].append(pool)
    everywhere = {
        tier for model, tier in burns if tier not in ("", objectives.EVERY) and model in ("", objectives.EVERY)
    }
    tiers: dict[str, set[str]] = {}
    for model, tier in burns:
        if model and tier not in ("", objectives.EVERY):
            tiers.setdefault(model, set()).add(tier)
    facts = {}
    for model in sorted(names):
        if model not in pools:
            continue
        known = traffic.tiers_of(model) | everywhere | tiers.get(model, set())
        facts[model] = ModelFacts(
            model=model,
            pools=tuple(pools[model]),
            disabled=not pools[model],
            tiers={tier: _tier(model, tier, burns, traffic, now_ms) for tier in sorted(known)},
        )
    return facts


def _tier(
    model: str, tier: str, burns: Mapping[tuple[str, str], list[TierBurn]], traffic: Traffic, now_ms: int
) -> TierFacts:
    arrived_rps, shed_share = tier_traffic(traffic, model, tier)
    every = objectives.burns_of(burns, model, tier)
    known = [burn for burn in every if burn.is_judged or (burn.fast, burn.slow) != (None, None)]
    return TierFacts(
        tier=tier,
        objective=max(known, key=lambda burn: burn.fast or 0.0).objective if known else "",
        burn_rate_fast=max((burn.fast for burn in known if burn.fast is not None), default=None),
        burn_rate_slow=max((burn.slow for burn in known if burn.slow is not None), default=None),
        budget_left=min((burn.budget_left for burn in known if burn.budget_left is not None), default=None),
        attainment=min((burn.attainment for burn in known if burn.attainment is not None), default=None),
        arrived_rps=arrived_rps,
        shed_share=shed_share,
        age_ms=_oldest_ms(known, now_ms),
        unjudged=tuple(sorted(burn.objective for burn in every if not burn.is_judged)),
        unmeasured_s=max((burn.unmeasured_s for burn in every), default=0),
    )


def _oldest_ms(burns: Iterable[TierBurn], now_ms: int) -> int | None:
    return max((max(0, now_ms - int(burn.at.timestamp() * MS_PER_S)) for burn in burns), default=None)
