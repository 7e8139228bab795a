"""The policy snapshot: the one document that the gateway obeys. The control plane writes it whole, and the gateway swaps
it whole.
"""

import hashlib
from typing import Any, NamedTuple

import msgspec

from inference.contract import lenient
from inference.contract.failure_rules import Ejection, Retries
from inference.contract.lenient import Exact
from inference.contract.rules import NO_OVERLAY, CacheMode, Count, Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot_checks import (
    TOKENIZERS,
    Fault,
    Reader,
    SnapshotError,
    check_guard,
    check_issuer,
    check_tenant,
    check_timeouts,
    is_name,
)
from inference.contract.snapshot_parts import (
    CacheRule,
    Endpoint,
    GuardRule,
    Issuer,
    Key,
    Model,
    Pool,
    Price,
    Protocol,
    ReasoningField,
    ReasoningParser,
    Server,
    Signature,
    StageTimeouts,
    Tenant,
    Tier,
    TimeoutRule,
    Tls,
    ToolParser,
    UnknownParameters,
    WarmUp,
)

__all__ = [
    "TOKENIZERS",
    "CacheMode",
    "CacheRule",
    "Degradation",
    "Ejection",
    "Endpoint",
    "Fault",
    "GuardRule",
    "Issuer",
    "Key",
    "Model",
    "Overlay",
    "Pool",
    "Price",
    "Protocol",
    "ReasoningField",
    "ReasoningParser",
    "Retries",
    "Route",
    "RouteRule",
    "Server",
    "Signature",
    "SnapshotError",
    "StageTimeouts",
    "Tenant",
    "Tier",
    "TimeoutRule",
    "Tls",
    "ToolParser",
    "UnknownParameters",
    "WarmUp",
    "is_name",
]

SCHEMA = 3
"""The version of the document that `encode` writes."""


class Snapshot(Exact, frozen=True):
    """The whole document as it is obeyed: each pool has its endpoints. `version` is the revision of what owners entered;
    endpoints and overlay have versions of their own. `written_ms` (Unix time, and always more than that of the document before) says
    which of two documents is the newer one; 0, as of a document that somebody writes by hand, is not compared.
    """

    version: int
    models: tuple[Model, ...]
    pools: tuple[Pool, ...]
    tiers: tuple[Tier, ...]
    tenants: tuple[Tenant, ...]
    timeouts: StageTimeouts = StageTimeouts()
    rules: tuple[RouteRule, ...] = ()
    endpoints_version: int = 0
    overlay: Overlay = NO_OVERLAY
    written_ms: int = 0
    timeout_rules: tuple[TimeoutRule, ...] = ()
    tag_purges: dict[str, Count] = {}  # how often the answers to requests with a tag were purged
    issuers: tuple[Issuer, ...] = ()
    guards: tuple[GuardRule, ...] = ()


class Checked(NamedTuple):
    """The parts of a document that can be obeyed, the faults of the others, and the fields that this gateway does not know."""

    snapshot: Snapshot
    faults: tuple[Fault, ...]
    unknown: tuple[str, ...] = ()


class _Endpoints(Exact, frozen=True):
    """Where the replicas of each pool are. They change more often than what owners enter."""

    version: int = 0
    pools: dict[str, tuple[msgspec.Raw, ...]] = {}


class _Document(Exact, frozen=True):
    """The document as it is stored. Its parts are read one by one, so that a bad part spoils no other."""

    version: int
    models: tuple[msgspec.Raw, ...]
    pools: tuple[msgspec.Raw, ...]
    tiers: tuple[msgspec.Raw, ...]
    tenants: tuple[msgspec.Raw, ...]
    schema: int = SCHEMA
    min_schema: int = SCHEMA  # gateways of an older one would misunderstand the document
    timeouts: StageTimeouts = StageTimeouts()
    rules: tuple[msgspec.Raw, ...] = ()
    endpoints: _Endpoints = _Endpoints()
    overlay: msgspec.Raw = msgspec.Raw()
    written_ms: int = 0
    timeout_rules: tuple[msgspec.Raw, ...] = ()
    tag_purges: dict[str, Count] = {}
    issuers: tuple[msgspec.Raw, ...] = ()
    guards: tuple[msgspec.Raw, ...] = ()


def key_digest(api_key: str) -> str:
    """Hex SHA-256 of an API key or token. They have 256 random bits, so a plain digest is enough, and it costs a microsecond."""
    return hashlib.sha256(api_key.encode()).hexdigest()


def check(raw: bytes, link_local: bool = False) -> Checked:
    """Parse a snapshot, and leave out the parts that cannot be obeyed. `link_local` allows URLs of link-local hosts.

    Raises SnapshotError if the document cannot be read, if it is for newer gateways alone, or if no model or no tenant is left.
    """
    try:
        document, unknown = lenient.decode(raw, _Document)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"not a policy snapshot: {error}") from error
    if document.min_schema > SCHEMA:
        raise SnapshotError(
            f"it is for gateways of schema {document.min_schema} and later, and this one has {SCHEMA}: update the gateway"
        )
    read = Reader(unknown, link_local)
    faults = read.faults
    pools = read.parts("pool", document.pools, Pool, lambda pool: read.pool(pool, document.endpoints.pools))
    models = read.parts("model", document.models, Model, lambda model: read.model(model, pools))
    tiers = read.parts("tier", document.tiers, Tier, lambda tier: tier)
    tenants = read.parts("tenant", document.tenants, Tenant, lambda tenant: check_tenant(tenant, tiers))
    for what, given, left in (("model", document.models, models), ("tenant", document.tenants, tenants)):
        if given and not left:
            reasons = [
                next(fault for fault in faults if fault.kind == what),
                *faults[:1],
            ]  # a pool's comes before its models'
            raise SnapshotError(f"no {what} of it can be served: {'; '.join(dict.fromkeys(map(str, reasons)))}")
    rules = read.parts("rule", document.rules, RouteRule, lambda rule: read.rule(rule, models, pools))
    timeout_rules = read.parts(
        "timeouts", document.timeout_rules, TimeoutRule, lambda rule: check_timeouts(rule, models, tiers)
    )
    issuers = read.parts("issuer", document.issuers, Issuer, lambda issuer: check_issuer(issuer, link_local))
    guards = read.parts("guard", document.guards, GuardRule, lambda rule: check_guard(rule, tenants, link_local))
    snapshot = Snapshot(
        document.version,
        tuple(models.values()),
        tuple(pools.values()),
        tuple(tiers.values()),
        tuple(tenants.values()),
        document.timeouts,
        tuple(rules.values()),
        document.endpoints.version,
        read.overlay(document.overlay, models, pools),
        document.written_ms,
        tuple(timeout_rules.values()),
        document.tag_purges,
        tuple(issuers.values()),
        tuple(guards.values()),
    )
    return Checked(snapshot, tuple(faults), tuple(read.unknown))


def decode(raw: bytes) -> Snapshot:
    """The parts of a snapshot that can be obeyed. Raises SnapshotError as `check` does."""
    return check(raw).snapshot


def encode(snapshot: Snapshot) -> bytes:
    """The document, with the endpoints apart from their pools."""
    parts: dict[str, Any] = msgspec.to_builtins(snapshot)
    version, overlay = parts.pop("endpoints_version"), parts.pop("overlay")
    endpoints = {pool["name"]: pool.pop("endpoints") for pool in parts["pools"]}
    document = {"schema": SCHEMA, "min_schema": SCHEMA, **parts}
    document |= {"endpoints": {"version": version, "pools": endpoints}, "overlay": overlay}
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
