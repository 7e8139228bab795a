"""The policy snapshot: the one document the gateway obeys. Written whole by the control plane, swapped whole by the
gateway.
"""

import hashlib
from pathlib import Path
from typing import Literal

import msgspec


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replica of a pool. `grpc` is host:port of Triton's gRPC service."""

    replica: str
    grpc: str


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The replicas of a variant in one region. `model_name` is what Triton calls the model."""

    name: str
    variant: str
    region: str
    model_name: str
    model_version: str
    endpoints: tuple[Endpoint, ...]
    max_concurrency: int = 64  # requests in flight over all replicas, seen from one gateway process
    max_queue: int = 256  # requests waiting for one of those places; more get 429
    protocol: Literal["triton"] = "triton"


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pool: str
    weight: int = 100


class CacheRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`deterministic` caches temperature 0 or a fixed seed; `always` whatever the sampling; `never` nothing.

    `scope` `tenant` keeps each tenant's answers to itself; `all` shares them, which lets a tenant learn by timing
    what others asked.
    """

    mode: Literal["deterministic", "always", "never"] = "deterministic"
    ttl_s: int = 3600
    coalesce: bool = True  # identical requests in flight at the same moment cost one inference
    scope: Literal["tenant", "all"] = "tenant"


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks for. `prompt_version` is part of the cache key: bump it to start afresh."""

    name: str
    routes: tuple[Route, ...]
    tokenizer: str = "tekken"
    max_prompt_tokens: int = 32_768
    max_output_tokens: int = 4_096
    prompt_version: str = "1"
    cache: CacheRule = CacheRule()
    usd_per_1k_prompt_tokens: float = 0.0
    usd_per_1k_output_tokens: float = 0.0


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`priority` 1 is served first, in the gateway's queue and in Triton's."""

    name: str
    priority: int = 2
    requests_per_minute: int = 0  # per tenant, seen from one gateway process; 0 means no limit
    tokens_per_minute: int = 0  # prompt and output, likewise


class Tenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`key_sha256` are hex digests of the API keys; the keys themselves are never stored."""

    name: str
    tier: str
    key_sha256: tuple[str, ...]


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long each stage may take, ms. A stage over budget fails fast and names itself; the cache is skipped
    instead.
    """

    cache_ms: int = 25
    tokenizer_ms: int = 500
    queue_ms: int = 10_000
    first_token_ms: int = 60_000
    model_ms: int = 300_000
    egress_ms: int = 30_000


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    models: tuple[Model, ...]
    pools: tuple[Pool, ...]
    tiers: tuple[Tier, ...]
    tenants: tuple[Tenant, ...]
    budgets: Budgets = Budgets()
    degradation_level: int = 0


class SnapshotError(ValueError):
    """The document is not one to obey; the message names the field, the value and the remedy."""


def key_digest(api_key: str) -> str:
    """Hex SHA-256 of an API key. Keys carry 256 random bits, so a plain digest is enough and costs a microsecond."""
    return hashlib.sha256(api_key.encode()).hexdigest()


def decode(raw: bytes) -> Snapshot:
    """Parse and check a snapshot. Raises SnapshotError."""
    try:
        snapshot = msgspec.json.decode(raw, type=Snapshot)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"not a policy snapshot: {error}") from error
    pools = {pool.name for pool in snapshot.pools}
    tiers = {tier.name for tier in snapshot.tiers}
    for model in snapshot.models:
        if not model.routes:
            raise SnapshotError(f"model {model.name!r} has no route: add one to `routes`")
        for route in model.routes:
            if route.pool not in pools:
                raise SnapshotError(f"model {model.name!r} routes to pool {route.pool!r}, which `pools` does not have")
    for tenant in snapshot.tenants:
        if tenant.tier not in tiers:
            raise SnapshotError(f"tenant {tenant.name!r} has tier {tenant.tier!r}, which `tiers` does not have")
    return snapshot


def encode(snapshot: Snapshot) -> bytes:
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=2)


def write(path: Path, snapshot: Snapshot) -> None:
    """Replace the file whole: a reader sees the old text or the new one, never half of either."""
    temporary = path.with_suffix(".tmp")
    temporary.touch(mode=0o600)
    temporary.write_bytes(encode(snapshot))
    temporary.replace(path)
