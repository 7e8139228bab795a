"""Reads the enabled part of the fleet from the database, for `core/snapshot.py`. A column is the field of its name in the snapshot."""

from datetime import datetime
from typing import Any, TypeVar

import msgspec
from django.db import models

from controlplane.fleet.core.metrics_page import entered_url
from controlplane.fleet.core.snapshot import FleetValues, ServingPool
from controlplane.fleet.models import (
    CachePurge,
    GuardRule,
    LLMModel,
    Pool,
    Replica,
    RoutingRules,
    StageTimeouts,
    Tenant,
    Tier,
    TimeoutRule,
    TokenIssuer,
    Variant,
)
from inference.contract import snapshot
from inference.contract.credentials import Header, value_and_secret
from inference.contract.rules import NO_OVERLAY, Overlay, RouteRule
from inference.contract.snapshot_parts import SemanticRule
from inference.contract.tensor_mapping import TensorMapping

Part = TypeVar("Part", bound=msgspec.Struct)


def fleet_values() -> FleetValues:
    """What owners entered, and the endpoints, in a dozen queries. Read it inside a transaction that sees one moment."""
    return FleetValues(
        models=tuple(
            _model(row)
            for row in LLMModel.objects.filter(enabled=True)
            .select_related("semantic_embedder", "semantic_judge")
            .prefetch_related("fallbacks__pool", "regions__region", "version_purges")
        ),
        pools=_pools(),
        tiers=tuple(_part(snapshot.Tier, row) for row in Tier.objects.all()),
        tenants=tuple(
            _tenant(row)
            for row in Tenant.objects.filter(enabled=True)
            .select_related("tier")
            .prefetch_related("keys__only_models", "regions__region", "token_tiers")
        ),
        timeouts=_part(snapshot.StageTimeouts, StageTimeouts.objects.first() or StageTimeouts()),
        rules=_rules(),
        timeout_rules=_timeout_rules(),
        guards=tuple(
            _part(
                snapshot.GuardRule,
                row,
                name=str(row),
                tenant=row.tenant.name,
                patterns=tuple(row.patterns),
                tiers=tuple(sorted(tier.name for tier in row.tiers.all())),
            )
            for row in GuardRule.objects.filter(enabled=True, tenant__enabled=True)
            .select_related("tenant")
            .prefetch_related("tiers")
        ),
        issuers=tuple(
            _part(
                snapshot.Issuer,
                row,
                algorithms=tuple(row.algorithms),
                tenants=tuple(sorted(tenant.name for tenant in row.tenants.all())),
            )
            for row in TokenIssuer.objects.filter(enabled=True).prefetch_related("tenants")
        ),
        tag_purges={row.tag: row.cache_purges for row in CachePurge.objects.filter(model__isnull=True)},
    )


def _part(kind: type[Part], row: models.Model, **others: Any) -> Part:
    """A part of the snapshot out of the row's columns, and out of `others`. It is not checked: that is for `snapshot.check`, which
    leaves out a part with a value that it refuses, and not the whole document.
    """
    columns = {name: getattr(row, name) for name in kind.__struct_fields__ if name not in others}
    return kind(**columns, **others)


def _model(row: LLMModel) -> snapshot.Model:
    return _part(
        snapshot.Model,
        row,
        routes=(),
        cache=snapshot.CacheRule(
            mode=row.cache_mode,  # type: ignore[arg-type]
            ttl_s=row.cache_ttl_s,
            ttls_s=row.cache_ttls_s or {},
            stales_s=row.cache_stales_s or {},
            coalesce=row.cache_coalesce,
            scope=row.cache_scope,  # type: ignore[arg-type]
            purges=row.cache_purges,
            version_purges=sum(
                it.cache_purges for it in row.version_purges.all() if it.prompt_version == row.prompt_version
            ),
            semantic=SemanticRule(
                mode=row.semantic_mode,  # type: ignore[arg-type]
                embedder=row.semantic_embedder.name if row.semantic_embedder else "",
                wrong_percent=row.semantic_wrong_percent,
                other_words=row.semantic_other_words,
                timely=row.semantic_timely,
                across_tenants=row.semantic_across_tenants,
                judge=row.semantic_judge.name if row.semantic_judge else "",
                judge_ms=row.semantic_judge_ms,
                embed_ms=row.semantic_embed_ms,
            ),
        ),
        fallbacks=tuple(fallback.pool.name for fallback in row.fallbacks.all()),
        regions=_regions(row),
        image_hosts=tuple(row.image_hosts),
    )


def _regions(row: LLMModel | Tenant) -> tuple[str, ...]:
    return tuple(sorted(allowed.region.name for allowed in row.regions.all()))


def _pools() -> tuple[ServingPool, ...]:
    rows = (
        Pool.objects.filter(enabled=True)
        .select_related("variant__model", "region")
        .prefetch_related("replicas", "prices", "variant__prices", "variant__model__prices")
    )
    return tuple(ServingPool(_pool(row), row.variant.model.name, row.weight) for row in rows)


def _pool(row: Pool) -> snapshot.Pool:
    replicas = sorted(row.replicas.all(), key=lambda replica: replica.name)
    return _part(
        snapshot.Pool,
        row,
        variant=row.variant.name,
        region=row.region.name,
        endpoints=tuple(_endpoint(replica, row.protocol) for replica in replicas if replica.enabled),
        mapping=mapping_of(row),
        prices=tuple(
            price for of in (row, row.variant, row.variant.model) for price in _prices(of)
        ),  # the closest first
        tls=snapshot.Tls(
            enabled=row.tls_enabled, ca=row.tls_ca, server_name=row.tls_server_name, certificate=row.tls_certificate
        ),
        headers=_headers(row.headers),
        warm_up=snapshot.WarmUp(
            requests=row.warm_up_requests,
            prompt=row.warm_up_prompt,
            max_tokens=row.warm_up_tokens,
            within_s=row.warm_up_within_s,
        ),
        ejection=_ejection(row.variant.model),
        unknown_parameters=row.variant.model.unknown_parameters,
        retries=snapshot.Retries(
            attempts=row.variant.model.attempts,
            percent=row.variant.model.retry_percent,
            least=row.variant.model.retry_least,
        ),
    )


def _headers(entered: dict[str, str]) -> tuple[Header, ...]:
    pairs = ((name, *value_and_secret(text)) for name, text in entered.items())
    return tuple(Header(name=name, value=value, secret=secret) for name, value, secret in pairs)


def _ejection(row: LLMModel) -> snapshot.Ejection:
    return snapshot.Ejection(
        failures=row.eject_failures,
        failure_percent=row.eject_percent,
        min_calls=row.eject_min_calls,
        base_s=row.eject_base_s,
        most_percent=row.eject_most_percent,
        panic_percent=row.panic_percent,
        probes=row.down_probes,
    )


def _prices(of: Pool | Variant | LLMModel) -> list[snapshot.Price]:
    """Those of one of them. Where several hold, the one that began last counts."""
    known = (
        _part(snapshot.Price, row, from_ms=_unix_ms(row.valid_from), until_ms=_unix_ms(row.valid_until))
        for row in of.prices.all()
    )
    return sorted(known, key=lambda price: -price.from_ms)


def _unix_ms(at: datetime | None) -> int:
    return round(at.timestamp() * 1000) if at else 0


def _endpoint(row: Replica, protocol: str) -> snapshot.Endpoint:
    return snapshot.Endpoint(
        replica=row.name,
        grpc=row.grpc if protocol == "triton" else "",
        url=row.url.rstrip("/") if protocol == "openai" else "",
        metrics=entered_url(row.metrics),
        draining=row.draining,
    )


def mapping_of(pool: Pool) -> TensorMapping | None:
    """None also where it is no mapping, which the forms refuse: the gateway reports such a pool."""
    try:
        return msgspec.convert(pool.mapping, TensorMapping)
    except msgspec.ValidationError:
        return None


def _tenant(row: Tenant) -> snapshot.Tenant:
    keys = sorted((key for key in row.keys.all() if key.enabled), key=lambda key: key.sha256)
    return snapshot.Tenant(
        name=row.name,
        tier=row.tier.name,
        key_sha256=tuple(key.sha256 for key in keys if not key.has_settings),
        keys=tuple(
            _part(
                snapshot.Key,
                key,
                models=tuple(sorted(model.name for model in key.only_models.all())),
                expires_ms=_unix_ms(key.expires_at),
            )
            for key in keys
            if key.has_settings
        ),
        regions=_regions(row),
        cache_purges=row.cache_purges,
        tiers=tuple(sorted(tier.name for tier in row.token_tiers.all())),
        audits_texts=row.audits_texts,
    )


def _timeout_rules() -> tuple[snapshot.TimeoutRule, ...]:
    return tuple(
        _part(
            snapshot.TimeoutRule,
            row,
            name=str(row),
            model=row.model.name if row.model else "",
            tier=row.tier.name if row.tier else "",
        )
        for row in TimeoutRule.objects.select_related("model", "tier")
    )


def _rules() -> tuple[RouteRule, ...]:
    """The rules of all routing policies: those of one policy in their order, the policies by name."""
    return tuple(
        msgspec.convert(rule, RouteRule)
        for row in RoutingRules.objects.all()
        for rule in msgspec.json.decode(row.rules, type=list[dict[str, Any]])
    )


def read_overlay(text: str) -> Overlay:
    """The overlay in force, from `PublishedSnapshot.overlay`."""
    return msgspec.convert(msgspec.json.decode(text), Overlay) if text else NO_OVERLAY
