"""Previews a routing policy: sends the recorded requests where its rules would have sent them, and replays its failovers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Count, Q

from controlplane.fleet.core.snapshot import FleetValues, render
from controlplane.fleet.models import Pool
from controlplane.fleet.snapshot_values import fleet_values
from controlplane.planning import inputs
from controlplane.planning.models import GpuType
from controlplane.policy.core.spec import Routing
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview import recorded_decisions
from controlplane.policy.preview.common import DAY_S, NS_PER_S, CannotPreviewError, Report, followed, in_force, window
from controlplane.policy.preview.core.routed import PoolKnown, Speeds, bounds_of, moved, routed
from controlplane.policy.revisions import names
from controlplane.policy.revisions.core.route_rules import route_rules
from controlplane.telemetry.core.replayed_rows import RuledHour, RuledRow
from controlplane.telemetry.query import answers
from forecasting.capacity.assumptions import PoolAssumptions
from inference.contract.plan import Plans, plans_of
from inference.contract.rules import NO_OVERLAY, RouteRule

NOTE = (
    "Latency is what each pool recorded for prompts of that length. It stays so only while the pool is not fuller than it was. "
    "Cost is that of replicas at the load they carry. The ledger does not have where clients are: `regions` are compared with the "
    "region of the pool that a request was sent to. Lengths are those that the tokenizer counted, and the gateway estimates them. "
    "Failovers, canaries, ladders and the regions that tenants are pinned to are left out of these counts."
)
LOWER_BOUND = " Replicas of {pools} may carry more than is known of them, and a request there may cost less."
NO_RECORDS = " Failovers cannot be replayed: no decision about this model was recorded in that time."
REPLAYED = " Failovers are replayed on {hours:.3g} hours of recorded decisions, a minute apart or less."


def preview_routing(revision: PolicyRevision, policy: Routing, report: Report) -> dict[str, Any]:
    """Raises CannotPreviewError, and the errors of the store."""
    model = policy.spec.model
    current = in_force(revision, policy)
    fleet = fleet_values()
    sides = {
        "revision": _ruled(fleet, model, route_rules(policy)),
        "current": _ruled(fleet, model, route_rules(current[1]) if current else ()),
    }
    rules = [rule for _, each in sides.values() for rule in each]
    bounds = bounds_of(rules)
    tenants = sorted({tenant for rule in rules for tenant in rule.tenants})
    caps = sorted({rule.max_output_tokens for rule in rules} - {0})
    report(0.0, "counts recorded requests")
    rows, hours, days = _read(model, bounds, tenants, caps)
    pools, speeds = _known(), Speeds(rows)
    figures = {
        side: routed(plans, each, bounds, rows, hours, caps, speeds, pools) for side, (plans, each) in sides.items()
    }
    with_failovers = {"revision": (revision, policy)} | ({"current": current} if current else {})
    with_failovers = {side: each for side, each in with_failovers.items() if each[1].spec.failover}
    replayed = recorded_decisions.replayed(
        {side: followed(*each) for side, each in with_failovers.items()},
        lambda share: report(0.3 + 0.7 * share, "replays recorded decisions"),
    )
    for side, walk in replayed.items():
        spec = with_failovers[side][1]
        stay = names.unmoved(spec, fleet)
        figures[side]["failovers"] = [
            {
                "failover": each.name,
                "entered": walk.entered(each.name),
                "active_s": walk.seconds(each.name),
                "unmoved_tenants": stay.get(each.name, []),
            }
            for each in spec.spec.failover
        ]
    return {
        "kind": "Routing",
        "model": model,
        **figures,
        "current_revision": current[0].number if current else None,
        "moved": moved(sides["revision"][0], sides["current"][0], bounds, rows),
        "requests": figures["revision"]["requests"],
        "days": days,
        "note": NOTE + _at_least(figures, pools) + _of_failovers([walk.known_s for walk in replayed.values()]),
    }


def _at_least(figures: Mapping[str, Any], pools: Mapping[str, PoolKnown]) -> str:
    shown = {each["pool"] for side in figures.values() for each in side["pools"]}
    more = sorted(name for name in shown if name in pools and pools[name].at_least)
    return LOWER_BOUND.format(pools=", ".join(more)) if more else ""


def _of_failovers(known_s: Sequence[float]) -> str:
    if not known_s:
        return ""
    return REPLAYED.format(hours=max(known_s) / 3_600) if max(known_s) else NO_RECORDS


def _ruled(fleet: FleetValues, model: str, rules: Sequence[RouteRule]) -> tuple[Plans, tuple[RouteRule, ...]]:
    """How gateways would choose with these rules instead of those in force. Raises CannotPreviewError."""
    document = render(replace(fleet, rules=tuple(rules)), 0)
    models = [each for each in document.models if each.name == model]
    if not models:
        raise CannotPreviewError(
            f"model {model!r} is disabled, or none of its pools gets requests: enable them at /admin/fleet/pool/"
        )
    tiers = [tier.name for tier in document.tiers]
    return plans_of(models, document.pools, tiers, document.rules, NO_OVERLAY)[model], document.rules


def _read(
    model: str, bounds: Sequence[int], tenants: Sequence[str], caps: Sequence[int]
) -> tuple[list[RuledRow], list[RuledHour], float]:
    store, whole = answers.store(), window()
    hours = store.submit_query(store.replayed.hours, whole, model, bounds, tenants)
    rows = store.replayed.rows(whole, model, bounds, tenants, caps)
    covered_s = answers.covered_ns(whole, whole.to_ns) / NS_PER_S
    if not rows:
        raise CannotPreviewError(f"no request for model {model!r} was recorded in the last 14 days: send some first")
    return rows, hours.result(), round(covered_s / DAY_S, 2)


def _known() -> dict[str, PoolKnown]:
    """Of each enabled pool: what its replicas of now carry, and what a request costs on a replica that is as full as it may be."""
    usd_per_hour = dict(GpuType.objects.values_list("name", "usd_per_hour"))
    counted = Pool.objects.annotate(ready=Count("replicas", filter=Q(replicas__enabled=True, replicas__draining=False)))
    replicas: dict[str, int] = dict(counted.values_list("name", "ready"))
    return {pool.pool: _pool(pool, replicas, usd_per_hour) for pool in inputs.pools()}


def _pool(pool: PoolAssumptions, replicas: Mapping[str, int], usd_per_hour: Mapping[str, float]) -> PoolKnown:
    capacity = pool.capacities.get(pool.gpu)
    usd = inputs.usd_per_replica_hour(pool, usd_per_hour)
    per_request = None
    if capacity is not None and usd is not None and capacity.requests_per_s:
        per_request = usd / (capacity.requests_per_s * 3_600)
    carries = None if capacity is None else capacity.requests_per_s * replicas.get(pool.pool, 0)
    return PoolKnown(pool.variant, pool.region, carries, per_request, capacity is not None and capacity.lower_bound)
