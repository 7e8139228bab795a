"""Renders the policy snapshot from the fleet as plain values, which `rows.py` reads from the database."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from inference.core.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, StageTimeouts, Tenant, Tier

DEFAULT_TIMEOUTS = StageTimeouts()


@dataclass(frozen=True, slots=True)
class ReplicaValue:
    name: str
    grpc: str  # host:port
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class PoolValue:
    name: str
    model: str  # what clients ask for
    variant: str
    region: str
    model_name: str  # what Triton calls it
    model_version: str
    weight: int = 100
    enabled: bool = True
    max_concurrency: int = 64
    max_queue: int = 256
    replicas: tuple[ReplicaValue, ...] = ()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        live = (replica for replica in self.replicas if replica.enabled)
        return tuple(Endpoint(replica.name, replica.grpc) for replica in sorted(live, key=lambda replica: replica.name))


@dataclass(frozen=True, slots=True)
class ModelValue:
    name: str
    enabled: bool
    tokenizer: str
    max_prompt_tokens: int
    max_output_tokens: int
    prompt_version: str
    cache: CacheRule
    usd_per_1k_prompt_tokens: float = 0.0
    usd_per_1k_output_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class TenantValue:
    name: str
    tier: str
    enabled: bool
    key_sha256: tuple[str, ...]  # of its enabled keys


@dataclass(frozen=True, slots=True)
class FleetValues:
    models: tuple[ModelValue, ...] = ()
    pools: tuple[PoolValue, ...] = ()
    tiers: tuple[Tier, ...] = ()
    tenants: tuple[TenantValue, ...] = ()
    timeouts: StageTimeouts = DEFAULT_TIMEOUTS


def render(fleet: FleetValues, version: int) -> Snapshot:
    """The document for `fleet`. Independent of the order of its values, and always one that the gateway accepts.

    - A disabled model, pool, replica, tenant or key is left out; so is a model without a pool (the gateway would refuse
      the whole document for it) and a pool without requests.
    - A pool without replicas gets no requests while the model has another one; when none has any, the routes stay, so
      that clients get "no replica" (503) instead of "no such model" (404).
    """
    pools = {pool.name: pool for pool in fleet.pools if pool.enabled}
    models = tuple(
        _model(model, routes)
        for model in sorted(fleet.models, key=lambda model: model.name)
        if model.enabled and (routes := _routes(pool for pool in pools.values() if pool.model == model.name))
    )
    routed = {route.pool for model in models for route in model.routes}
    return Snapshot(
        version=version,
        models=models,
        pools=tuple(_pool(pools[name]) for name in sorted(routed)),
        tiers=tuple(sorted(fleet.tiers, key=lambda tier: (tier.priority, tier.name))),
        tenants=tuple(
            Tenant(tenant.name, tenant.tier, tuple(sorted(tenant.key_sha256)))
            for tenant in sorted(fleet.tenants, key=lambda tenant: tenant.name)
            if tenant.enabled
        ),
        timeouts=fleet.timeouts,
    )


def content_sha256(snapshot: Snapshot) -> str:
    """Hex SHA-256 of everything but the version."""
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(snapshot, version=0))).hexdigest()


def _routes(pools: Iterable[PoolValue]) -> tuple[Route, ...]:
    ordered = sorted(pools, key=lambda pool: pool.name)
    serving = [pool for pool in ordered if pool.endpoints]
    return tuple(Route(pool.name, pool.weight) for pool in serving or ordered)


def _model(model: ModelValue, routes: tuple[Route, ...]) -> Model:
    return Model(
        name=model.name,
        routes=routes,
        tokenizer=model.tokenizer,
        max_prompt_tokens=model.max_prompt_tokens,
        max_output_tokens=model.max_output_tokens,
        prompt_version=model.prompt_version,
        cache=model.cache,
        usd_per_1k_prompt_tokens=model.usd_per_1k_prompt_tokens,
        usd_per_1k_output_tokens=model.usd_per_1k_output_tokens,
    )


def _pool(pool: PoolValue) -> Pool:
    return Pool(
        name=pool.name,
        variant=pool.variant,
        region=pool.region,
        model_name=pool.model_name,
        model_version=pool.model_version,
        endpoints=pool.endpoints,
        max_concurrency=pool.max_concurrency,
        max_queue=pool.max_queue,
        protocol="triton",
    )
