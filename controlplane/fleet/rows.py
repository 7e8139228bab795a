"""Reads the fleet from the database as plain values, for `core/snapshot.py`."""

from typing import Any

import msgspec

from controlplane.fleet.core.snapshot import FleetValues, ModelValue, PoolValue, ReplicaValue, TenantValue
from controlplane.fleet.models import LLMModel, Pool, RoutingRules, StageTimeouts, Tenant, Tier
from inference.contract import snapshot
from inference.contract.rules import NO_OVERLAY, Overlay, RouteRule
from inference.contract.snapshot import CacheRule
from inference.contract.tensor_mapping import TensorMapping


def fleet_values() -> FleetValues:
    """What owners entered, and the endpoints, in ten queries. Read it inside a transaction that sees one moment."""
    return FleetValues(
        models=_models(), pools=_pools(), tiers=_tiers(), tenants=_tenants(), timeouts=_timeouts(), rules=_rules()
    )


def _models() -> tuple[ModelValue, ...]:
    return tuple(
        ModelValue(
            name=model.name,
            enabled=model.enabled,
            tokenizer=model.tokenizer,
            max_prompt_tokens=model.max_prompt_tokens,
            max_output_tokens=model.max_output_tokens,
            prompt_version=model.prompt_version,
            cache=CacheRule(
                mode=model.cache_mode,  # type: ignore[arg-type]
                ttl_s=model.cache_ttl_s,
                coalesce=model.cache_coalesce,
                scope=model.cache_scope,  # type: ignore[arg-type]
            ),
            usd_per_1k_prompt_tokens=model.usd_per_1k_prompt_tokens,
            usd_per_1k_output_tokens=model.usd_per_1k_output_tokens,
            template=model.template,  # type: ignore[arg-type]
            tool_parser=model.tool_parser,  # type: ignore[arg-type]
            reasoning_parser=model.reasoning_parser,  # type: ignore[arg-type]
            reasoning_field=model.reasoning_field,  # type: ignore[arg-type]
            fallbacks=tuple(fallback.pool.name for fallback in model.fallbacks.all()),
            hedge_ms=model.hedge_ms,
            max_context_tokens=model.max_context_tokens,
        )
        for model in LLMModel.objects.prefetch_related("fallbacks__pool")
    )


def _pools() -> tuple[PoolValue, ...]:
    return tuple(
        PoolValue(
            name=pool.name,
            model=pool.variant.model.name,
            variant=pool.variant.name,
            region=pool.region.name,
            model_name=pool.model_name,
            model_version=pool.model_version,
            weight=pool.weight,
            enabled=pool.enabled,
            max_concurrency=pool.max_concurrency,
            replica_concurrency=pool.replica_concurrency,
            max_queue=pool.max_queue,
            replicas=tuple(
                ReplicaValue(
                    replica.name, replica.grpc, replica.enabled, replica.url, replica.metrics, replica.draining
                )
                for replica in pool.replicas.all()
            ),
            protocol=pool.protocol,  # type: ignore[arg-type]
            signature=pool.signature,  # type: ignore[arg-type]
            mapping=mapping_of(pool),
            server=pool.server,  # type: ignore[arg-type]
            credential=pool.credential,
            tls=snapshot.Tls(enabled=pool.tls_enabled, ca=pool.tls_ca, server_name=pool.tls_server_name),
            max_output_default=pool.max_output_default,
            warm_up=snapshot.WarmUp(
                requests=pool.warm_up_requests,
                prompt=pool.warm_up_prompt,
                max_tokens=pool.warm_up_tokens,
                within_s=pool.warm_up_within_s,
            ),
        )
        for pool in Pool.objects.select_related("variant__model", "region").prefetch_related("replicas")
    )


def mapping_of(pool: Pool) -> TensorMapping | None:
    """None also where it is no mapping, which the forms refuse: the gateway reports such a pool."""
    try:
        return msgspec.convert(pool.mapping, TensorMapping)
    except msgspec.ValidationError:
        return None


def _tiers() -> tuple[snapshot.Tier, ...]:
    return tuple(
        snapshot.Tier(
            name=tier.name,
            priority=tier.priority,
            requests_per_minute=tier.requests_per_minute,
            tokens_per_minute=tier.tokens_per_minute,
            weight=tier.weight,
            max_in_flight=tier.max_in_flight,
            reserved_percent=tier.reserved_percent,
        )
        for tier in Tier.objects.all()
    )


def _tenants() -> tuple[TenantValue, ...]:
    return tuple(
        TenantValue(
            name=tenant.name,
            tier=tenant.tier.name,
            enabled=tenant.enabled,
            key_sha256=tuple(key.sha256 for key in tenant.keys.all() if key.enabled and not key.has_limits),
            keys=tuple(
                snapshot.Key(
                    sha256=key.sha256,
                    requests_per_minute=key.requests_per_minute,
                    tokens_per_minute=key.tokens_per_minute,
                    max_in_flight=key.max_in_flight,
                )
                for key in tenant.keys.all()
                if key.enabled and key.has_limits
            ),
        )
        for tenant in Tenant.objects.select_related("tier").prefetch_related("keys")
    )


def _timeouts() -> snapshot.StageTimeouts:
    row = StageTimeouts.objects.first() or StageTimeouts()
    names = snapshot.StageTimeouts.__struct_fields__
    return snapshot.StageTimeouts(**{name: getattr(row, name) for name in names})


def _rules() -> tuple[RouteRule, ...]:
    """The rules of all routing policies: those of one policy in their order, the policies by name."""
    return tuple(
        msgspec.convert(rule, RouteRule)
        for row in RoutingRules.objects.all()
        for rule in msgspec.json.decode(row.rules, type=list[dict[str, Any]])
    )


def overlay(text: str) -> Overlay:
    """The overlay in force, from `PublishedSnapshot.overlay`."""
    return msgspec.convert(msgspec.json.decode(text), Overlay) if text else NO_OVERLAY
