"""The policy snapshot: the one document that the gateway obeys. The control plane writes it whole, and the gateway swaps
it whole.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeVar

import msgspec

from inference.core.address import parse_address
from inference.core.errors import PermanentError

TOKENIZERS = ("tekken",)
"""The names that `Model.tokenizer` may have. `inference/request/tokenize.py` loads them."""


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
    max_concurrency: int = 64  # requests in flight over all replicas, per gateway process
    max_queue: int = 256  # requests that wait for a place; more get 429
    protocol: Literal["triton"] = "triton"


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pool: str
    weight: int = 100


class CacheRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`deterministic` caches answers at temperature 0 or with a seed, `always` all answers, `never` none.

    With `scope` `tenant` each tenant has answers of its own. With `all` they are shared, which lets a tenant learn by
    timing what others have sent.
    """

    mode: Literal["deterministic", "always", "never"] = "deterministic"
    ttl_s: int = 3600
    coalesce: bool = True  # identical requests in flight at the same time share one inference
    scope: Literal["tenant", "all"] = "tenant"


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients ask for. `prompt_version` is part of the cache key: change it to start with an empty cache."""

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
    requests_per_minute: int = 0  # per tenant and gateway process; 0 means no limit
    tokens_per_minute: int = 0  # prompt and output, per tenant and gateway process; 0 means no limit


class Tenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`key_sha256` are hex digests of the API keys; the keys themselves are never stored."""

    name: str
    tier: str
    key_sha256: tuple[str, ...]


class StageTimeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long each stage may take, ms. The gateway ends a stage that takes longer with an error that names it. It skips
    the cache instead.
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
    timeouts: StageTimeouts = StageTimeouts()


class SnapshotError(PermanentError, ValueError):
    """The document cannot be obeyed. The message names the field, the value and the remedy."""


class Fault(NamedTuple):
    """A part of the document that cannot be obeyed, and why."""

    kind: Literal["model", "pool", "tier", "tenant"]
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {self.reason}"


class Checked(NamedTuple):
    """The parts of a document that can be obeyed, and the faults of the others."""

    snapshot: Snapshot
    faults: tuple[Fault, ...]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document as it is stored. Its parts are read one by one, so that a bad part spoils no other."""

    version: int
    models: tuple[msgspec.Raw, ...]
    pools: tuple[msgspec.Raw, ...]
    tiers: tuple[msgspec.Raw, ...]
    tenants: tuple[msgspec.Raw, ...]
    timeouts: StageTimeouts | None = None
    # A file that was written before an upgrade has these.
    former_timeouts: StageTimeouts | None = msgspec.field(default=None, name="budgets")
    degradation_level: int = 0


class _Named(msgspec.Struct):
    name: str


_Part = TypeVar("_Part", Model, Pool, Tier, Tenant)


def key_digest(api_key: str) -> str:
    """Hex SHA-256 of an API key. Keys have 256 random bits, so a plain digest is enough, and it costs a microsecond."""
    return hashlib.sha256(api_key.encode()).hexdigest()


def check(raw: bytes) -> Checked:
    """Parse a snapshot, and leave out the parts that cannot be obeyed.

    Raises SnapshotError if the document cannot be read, or if no model or no tenant is left.
    """
    try:
        document = msgspec.json.decode(raw, type=_Document)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"not a policy snapshot: {error}") from error
    faults: list[Fault] = []
    pools = _parts("pool", document.pools, Pool, lambda pool: _pool(pool, faults), faults)
    models = _parts("model", document.models, Model, lambda model: _model(model, set(pools), faults), faults)
    tiers = _parts("tier", document.tiers, Tier, lambda tier: tier, faults)
    tenants = _parts("tenant", document.tenants, Tenant, lambda tenant: _tenant(tenant, set(tiers)), faults)
    for what, given, left in (("model", document.models, models), ("tenant", document.tenants, tenants)):
        if given and not left:
            raise SnapshotError(f"no {what} of it can be served: {next(f for f in faults if f.kind == what)}")
    snapshot = Snapshot(
        document.version,
        tuple(models.values()),
        tuple(pools.values()),
        tuple(tiers.values()),
        tuple(tenants.values()),
        document.timeouts or document.former_timeouts or StageTimeouts(),
    )
    return Checked(snapshot, tuple(faults))


def decode(raw: bytes) -> Snapshot:
    """The parts of a snapshot that can be obeyed. Raises SnapshotError as `check` does."""
    return check(raw).snapshot


def _parts(
    kind: Literal["model", "pool", "tier", "tenant"],
    raws: Iterable[msgspec.Raw],
    type_: type[_Part],
    checked: Callable[[_Part], _Part],
    faults: list[Fault],
) -> dict[str, _Part]:
    """The parts that can be obeyed, by name."""
    parts: dict[str, _Part] = {}
    for number, raw in enumerate(raws):
        try:
            part = msgspec.json.decode(raw, type=type_)
            if part.name in parts:
                raise SnapshotError("there are two of this name: rename or remove one")
            parts[part.name] = checked(part)
        except (msgspec.DecodeError, SnapshotError) as error:
            faults.append(Fault(kind, _name(raw) or f"number {number + 1}", str(error)))
    return parts


def _name(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=_Named).name
    except msgspec.DecodeError:
        return ""


def _pool(pool: Pool, faults: list[Fault]) -> Pool:
    """The pool without replicas whose address is none."""
    endpoints = []
    for endpoint in pool.endpoints:
        try:
            parse_address(endpoint.grpc)
            endpoints.append(endpoint)
        except ValueError as error:
            faults.append(Fault("pool", pool.name, f"replica {endpoint.replica!r}: {error}"))
    return pool if len(endpoints) == len(pool.endpoints) else msgspec.structs.replace(pool, endpoints=tuple(endpoints))


def _model(model: Model, pools: set[str], faults: list[Fault]) -> Model:
    """The model without routes to unknown pools. Raises SnapshotError."""
    if model.tokenizer not in TOKENIZERS:
        raise SnapshotError(f"tokenizer {model.tokenizer!r} is not one of {', '.join(TOKENIZERS)}: choose one of them")
    routes = tuple(route for route in model.routes if route.pool in pools)
    lost = [route.pool for route in model.routes if route.pool not in pools]
    if not routes:
        what = f"its routes lead to {', '.join(map(repr, lost))}, which `pools` does not have" if lost else "no route"
        raise SnapshotError(f"{what}: add a route to one of the pools")
    for pool in lost:
        faults.append(Fault("model", model.name, f"a route leads to pool {pool!r}, which `pools` does not have"))
    return msgspec.structs.replace(model, routes=routes) if lost else model


def _tenant(tenant: Tenant, tiers: set[str]) -> Tenant:
    """Raises SnapshotError."""
    if tenant.tier not in tiers:
        raise SnapshotError(f"tier {tenant.tier!r} is not one of {', '.join(sorted(tiers)) or 'none'}: choose another")
    return tenant


def encode(snapshot: Snapshot) -> bytes:
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=2)
