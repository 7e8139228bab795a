"""Renders the policy snapshot from the fleet as plain values, which `snapshot_values.py` reads from the database."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from inference.contract.rules import NO_OVERLAY, RouteRule
from inference.contract.snapshot import (
    GuardRule,
    Issuer,
    Model,
    Pool,
    Route,
    Snapshot,
    StageTimeouts,
    Tenant,
    Tier,
    TimeoutRule,
)

DEFAULT_TIMEOUTS = StageTimeouts()


@dataclass(frozen=True, slots=True)
class ServingPool:
    """A pool as gateways get it, the model whose requests it serves, and its share of them."""

    pool: Pool
    model: str
    weight: int = 100


@dataclass(frozen=True, slots=True)
class FleetValues:
    """All of it is enabled. Models have no routes yet, and name fallbacks that may be disabled."""

    models: tuple[Model, ...] = ()
    pools: tuple[ServingPool, ...] = ()
    tiers: tuple[Tier, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    timeouts: StageTimeouts = DEFAULT_TIMEOUTS
    rules: tuple[RouteRule, ...] = ()  # of all routing policies, in order
    timeout_rules: tuple[TimeoutRule, ...] = ()
    tag_purges: Mapping[str, int] = field(default_factory=dict)
    issuers: tuple[Issuer, ...] = ()
    guards: tuple[GuardRule, ...] = ()


def render(fleet: FleetValues, version: int) -> Snapshot:
    """The document for `fleet`. Independent of the order of its values, and always one that the gateway accepts.

    - A model without a pool is left out (the gateway would refuse the whole document for it), and so is a pool without requests.
    - A pool that is a fallback of its own model gets requests only as such. A fallback that is not there is left out.
    - A pool without replicas keeps its route, so that a replica more or less is no new policy: the gateway itself sends
      requests where there are some.
    - A rule for a model that is left out is left out too, and its timeouts; routes and fallbacks of a rule lead to pools that are there.
    """
    pools = {each.pool.name: each for each in fleet.pools}
    models = tuple(
        msgspec.structs.replace(
            model, routes=routes, fallbacks=tuple(name for name in model.fallbacks if name in pools)
        )
        for model in sorted(fleet.models, key=lambda model: model.name)
        if (routes := _routes(_first_choices(model, pools)))
    )
    routed = {route.pool for model in models for route in model.routes}
    routed.update(pool for model in models for pool in model.fallbacks)
    rules = tuple(_rule(rule, pools) for rule in fleet.rules if any(rule.model == model.name for model in models))
    routed.update(pool for rule in rules for pool in (*(route.pool for route in rule.routes), *rule.fallbacks))
    return Snapshot(
        version=version,
        models=models,
        pools=tuple(pools[name].pool for name in sorted(routed)),
        tiers=tuple(sorted(fleet.tiers, key=lambda tier: (tier.priority, tier.name))),
        tenants=tuple(sorted(fleet.tenants, key=lambda tenant: tenant.name)),
        timeouts=fleet.timeouts,
        rules=rules,
        timeout_rules=tuple(
            sorted(
                (rule for rule in fleet.timeout_rules if rule.model in ("", *(model.name for model in models))),
                key=lambda rule: rule.name,
            )
        ),
        tag_purges=dict(sorted(fleet.tag_purges.items())),
        guards=tuple(sorted(fleet.guards, key=lambda rule: rule.name)),
        issuers=tuple(sorted(fleet.issuers, key=lambda issuer: issuer.name)),
    )


def policy_of(document: Snapshot) -> Snapshot:
    """What owners entered: the document without endpoints and overlay, which change without anybody's edit."""
    pools = tuple(msgspec.structs.replace(pool, endpoints=()) for pool in document.pools)
    return msgspec.structs.replace(document, pools=pools, endpoints_version=0, overlay=NO_OVERLAY, written_ms=0)


def content_sha256(document: Snapshot) -> str:
    """Hex SHA-256 of what owners entered, but for the version."""
    return _sha256(msgspec.structs.replace(policy_of(document), version=0))


def endpoints_sha256(document: Snapshot) -> str:
    """Hex SHA-256 of all endpoints."""
    return _sha256([(pool.name, pool.endpoints) for pool in document.pools])


def _sha256(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def _rule(rule: RouteRule, pools: Mapping[str, ServingPool]) -> RouteRule:
    return msgspec.structs.replace(
        rule,
        routes=tuple(route for route in rule.routes if route.pool in pools),
        fallbacks=tuple(pool for pool in rule.fallbacks if pool in pools),
    )


def _first_choices(model: Model, pools: Mapping[str, ServingPool]) -> list[ServingPool]:
    """The model's pools that are no fallbacks of it; all of them if all are."""
    own = [each for each in pools.values() if each.model == model.name]
    return [each for each in own if each.pool.name not in model.fallbacks] or own


def _routes(pools: Iterable[ServingPool]) -> tuple[Route, ...]:
    return tuple(sorted((Route(each.pool.name, each.weight) for each in pools), key=lambda route: route.pool))
