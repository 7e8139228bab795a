"""Reads the fleet from the database as plain values, for `core/snapshot.py`."""

from controlplane.fleet.core.snapshot import FleetValues, ModelValue, PoolValue, ReplicaValue, TenantValue
from controlplane.fleet.models import LLMModel, Pool, StageTimeouts, Tenant, Tier
from inference.core import snapshot
from inference.core.snapshot import CacheRule


def fleet_values() -> FleetValues:
    """Everything the snapshot is made of, in seven queries. Read it inside a transaction that sees one moment."""
    return FleetValues(models=_models(), pools=_pools(), tiers=_tiers(), tenants=_tenants(), timeouts=_timeouts())


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
        )
        for model in LLMModel.objects.all()
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
            max_queue=pool.max_queue,
            replicas=tuple(
                ReplicaValue(replica.name, replica.grpc, replica.enabled) for replica in pool.replicas.all()
            ),
        )
        for pool in Pool.objects.select_related("variant__model", "region").prefetch_related("replicas")
    )


def _tiers() -> tuple[snapshot.Tier, ...]:
    return tuple(
        snapshot.Tier(tier.name, tier.priority, tier.requests_per_minute, tier.tokens_per_minute)
        for tier in Tier.objects.all()
    )


def _tenants() -> tuple[TenantValue, ...]:
    return tuple(
        TenantValue(
            tenant.name, tenant.tier.name, tenant.enabled, tuple(key.sha256 for key in tenant.keys.all() if key.enabled)
        )
        for tenant in Tenant.objects.select_related("tier").prefetch_related("keys")
    )


def _timeouts() -> snapshot.StageTimeouts:
    row = StageTimeouts.objects.first() or StageTimeouts()
    names = snapshot.StageTimeouts.__struct_fields__
    return snapshot.StageTimeouts(**{name: getattr(row, name) for name in names})
