"""Renders the policy snapshot from the fleet as plain values, which `rows.py` reads from the database."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from controlplane.fleet.core.metrics_page import entered_url
from inference.contract import snapshot
from inference.contract.rules import NO_OVERLAY, RouteRule
from inference.contract.snapshot import CacheRule, Endpoint, Model, Pool, Route, Snapshot, StageTimeouts, Tenant, Tier
from inference.contract.tensor_mapping import TensorMapping

DEFAULT_TIMEOUTS = StageTimeouts()
SYSTEM_TLS = snapshot.Tls()
NO_WARM_UP = snapshot.WarmUp()


@dataclass(frozen=True, slots=True)
class ReplicaValue:
    name: str
    grpc: str = ""  # host:port
    enabled: bool = True
    url: str = ""  # of OpenAI's API
    metrics: str = ""  # as entered: a URL, host:port, or nothing
    draining: bool = False


@dataclass(frozen=True, slots=True)
class PoolValue:
    name: str
    model: str  # what clients ask for
    variant: str
    region: str
    model_name: str  # what its servers call it
    model_version: str
    weight: int = 100
    enabled: bool = True
    max_concurrency: int = 64
    replica_concurrency: int = 0
    max_queue: int = 256
    replicas: tuple[ReplicaValue, ...] = ()
    protocol: snapshot.Protocol = "triton"
    signature: snapshot.Signature = "weir"
    mapping: TensorMapping | None = None
    server: snapshot.Server = "auto"
    credential: str = ""
    tls: snapshot.Tls = SYSTEM_TLS
    max_output_default: int = 0
    warm_up: snapshot.WarmUp = NO_WARM_UP

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        live = (replica for replica in self.replicas if replica.enabled)
        return tuple(
            Endpoint(
                replica=replica.name,
                grpc=replica.grpc if self.protocol == "triton" else "",
                url=replica.url.rstrip("/") if self.protocol == "openai" else "",
                metrics=entered_url(replica.metrics),
                draining=replica.draining,
            )
            for replica in sorted(live, key=lambda replica: replica.name)
        )


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
    template: Literal["auto", "chatml"] = "auto"
    tool_parser: snapshot.ToolParser = ""
    reasoning_parser: snapshot.ReasoningParser = ""
    reasoning_field: snapshot.ReasoningField = "reasoning_content"
    fallbacks: tuple[str, ...] = ()  # names of pools, in order
    hedge_ms: int = 0
    max_context_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TenantValue:
    name: str
    tier: str
    enabled: bool
    key_sha256: tuple[str, ...]  # of its enabled keys without limits of their own
    keys: tuple[snapshot.Key, ...] = ()  # the enabled keys that have some


@dataclass(frozen=True, slots=True)
class FleetValues:
    models: tuple[ModelValue, ...] = ()
    pools: tuple[PoolValue, ...] = ()
    tiers: tuple[Tier, ...] = ()
    tenants: tuple[TenantValue, ...] = ()
    timeouts: StageTimeouts = DEFAULT_TIMEOUTS
    rules: tuple[RouteRule, ...] = ()  # of all routing policies, in order


def render(fleet: FleetValues, version: int) -> Snapshot:
    """The document for `fleet`. Independent of the order of its values, and always one that the gateway accepts.

    - A disabled model, pool, replica, tenant or key is left out; so is a model without a pool (the gateway would refuse
      the whole document for it) and a pool without requests.
    - A pool that is a fallback of its own model gets requests only as such. A fallback that is disabled is left out.
    - A pool without replicas keeps its route, so that a replica more or less is no new policy: the gateway itself sends
      requests where there are some.
    - A rule for a model that is left out is left out too; routes and fallbacks of a rule lead to pools that are there.
    """
    pools = {pool.name: pool for pool in fleet.pools if pool.enabled}
    models = tuple(
        _model(model, routes, tuple(pool for pool in model.fallbacks if pool in pools))
        for model in sorted(fleet.models, key=lambda model: model.name)
        if model.enabled and (routes := _routes(_first_choices(model, pools)))
    )
    routed = {route.pool for model in models for route in model.routes}
    routed.update(pool for model in models for pool in model.fallbacks)
    rules = tuple(_rule(rule, pools) for rule in fleet.rules if any(rule.model == model.name for model in models))
    routed.update(pool for rule in rules for pool in (*(route.pool for route in rule.routes), *rule.fallbacks))
    return Snapshot(
        version=version,
        models=models,
        pools=tuple(_pool(pools[name]) for name in sorted(routed)),
        tiers=tuple(sorted(fleet.tiers, key=lambda tier: (tier.priority, tier.name))),
        tenants=tuple(
            Tenant(
                name=tenant.name,
                tier=tenant.tier,
                key_sha256=tuple(sorted(tenant.key_sha256)),
                keys=tuple(sorted(tenant.keys, key=lambda key: key.sha256)),
            )
            for tenant in sorted(fleet.tenants, key=lambda tenant: tenant.name)
            if tenant.enabled
        ),
        timeouts=fleet.timeouts,
        rules=rules,
    )


def policy_of(document: Snapshot) -> Snapshot:
    """What owners entered: the document without endpoints and overlay, which change without anybody's edit."""
    pools = tuple(msgspec.structs.replace(pool, endpoints=()) for pool in document.pools)
    return msgspec.structs.replace(document, pools=pools, endpoints_version=0, overlay=NO_OVERLAY)


def content_sha256(document: Snapshot) -> str:
    """Hex SHA-256 of what owners entered, but for the version."""
    return _sha256(msgspec.structs.replace(policy_of(document), version=0))


def endpoints_sha256(document: Snapshot) -> str:
    """Hex SHA-256 of all endpoints."""
    return _sha256([(pool.name, pool.endpoints) for pool in document.pools])


def _sha256(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def _rule(rule: RouteRule, pools: Mapping[str, PoolValue]) -> RouteRule:
    return msgspec.structs.replace(
        rule,
        routes=tuple(route for route in rule.routes if route.pool in pools),
        fallbacks=tuple(pool for pool in rule.fallbacks if pool in pools),
    )


def _first_choices(model: ModelValue, pools: Mapping[str, PoolValue]) -> list[PoolValue]:
    """The model's pools that are no fallbacks of it; all of them if all are."""
    own = [pool for pool in pools.values() if pool.model == model.name]
    return [pool for pool in own if pool.name not in model.fallbacks] or own


def _routes(pools: Iterable[PoolValue]) -> tuple[Route, ...]:
    return tuple(Route(pool.name, pool.weight) for pool in sorted(pools, key=lambda pool: pool.name))


def _model(model: ModelValue, routes: tuple[Route, ...], fallbacks: tuple[str, ...]) -> Model:
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
        template=model.template,
        tool_parser=model.tool_parser,
        reasoning_parser=model.reasoning_parser,
        reasoning_field=model.reasoning_field,
        fallbacks=fallbacks,
        hedge_ms=model.hedge_ms,
        max_context_tokens=model.max_context_tokens,
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
        replica_concurrency=pool.replica_concurrency,
        max_queue=pool.max_queue,
        protocol=pool.protocol,
        signature=pool.signature,
        mapping=pool.mapping,
        server=pool.server,
        credential=pool.credential,
        tls=pool.tls,
        max_output_default=pool.max_output_default,
        warm_up=pool.warm_up,
    )
