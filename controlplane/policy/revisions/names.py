"""The names of the fleet that policies use."""

from django.db import models

from controlplane.fleet.core.snapshot import FleetValues
from controlplane.fleet.models import LLMModel, Pool, Region, Team, Tenant, Tier, Variant
from controlplane.policy.core.checks import Fleet
from controlplane.policy.core.overlay import failover
from controlplane.policy.core.spec import Policy, Routing, Scaling
from controlplane.slo.models import StoredObjective


def fleet(policy: Policy) -> Fleet:
    """What this policy may name. Workloads of the API tier are in clusters and not in the fleet: whether one is there, ticks see."""
    gateway = policy.spec.gateway if isinstance(policy, Scaling) else None
    return Fleet(
        models=_names(LLMModel),
        pools=_names(Pool),
        gateways={gateway} if gateway is not None else (),
        variants=_names(Variant),
        tiers=_names(Tier),
        regions=_names(Region),
        tenants=_names(Tenant),
        objectives=set(StoredObjective.objects.values_list("slug", flat=True)),
        teams=_names(Team),
    )


def target(policy: Policy) -> str:
    """What at most one policy of its kind may be in force for: `pool:NAME`, `gateway:NAME` or `model:NAME`."""
    if isinstance(policy, Scaling):
        return f"pool:{policy.spec.pool}" if policy.spec.pool is not None else policy.spec.target
    return f"model:{policy.spec.model}"


def scope(policy: Policy) -> dict[str, str]:
    """The requests that it touches, by dimension; empty: all, as of the API tier."""
    return scope_of_pool(policy.spec.pool or "") if isinstance(policy, Scaling) else {"model": policy.spec.model}


def scope_of_pool(pool: str) -> dict[str, str]:
    model = Pool.objects.filter(name=pool).values_list("variant__model__name", flat=True).first()
    return {"model": model, "pool": pool} if model else {}


def unmoved(policy: Policy, fleet: FleetValues) -> dict[str, list[str]]:
    """By failover of a routing policy, the tenants that it cannot move, where there are any."""
    model = (
        next((each for each in fleet.models if each.name == policy.spec.model), None)
        if isinstance(policy, Routing)
        else None
    )
    if not isinstance(policy, Routing) or model is None:
        return {}
    regions = {each.pool.name: each.pool.region for each in fleet.pools}
    every = ((each.name, failover.unmoved(each, model, regions, fleet.tenants)) for each in policy.spec.failover)
    return {name: tenants for name, tenants in every if tenants}


def _names(table: type[models.Model]) -> set[str]:
    return set(table._default_manager.values_list("name", flat=True))
