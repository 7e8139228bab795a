"""What the store measured of pools in one window: sums, so that they add up over replicas. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """The ledger's rows of one pool, model, region and replica. Times are sums in ns.

    Times and `requests` are of answered requests (status `ok`); `own_…` of those that the replica itself answered: what a cache
    answered says nothing of a replica.
    """

    pool: str
    model: str
    region: str
    replica: str
    requests: int
    e2e_ns: int
    stage_ns: Mapping[str, int] = field(default_factory=dict)
    own: int = 0
    own_failed: int = 0
    failed: int = 0
    refused: int = 0  # of the failed ones, those that no replica was there for
    own_e2e_ns: int = 0
    own_network_ns: int = 0
    cold: int = 0
    cold_e2e_ns: int = 0
    cache_hits: int = 0  # coalesced ones among them
    cache_lookups: int = 0
    cache_skipped: int = 0
    tokenizer_ns: int = 0  # of requests that were tokenised, and
    tokenized: int = 0  # how many tokens they had
    model_ns: int = 0  # of requests with output, and
    output_tokens: int = 0  # how many tokens that was


@dataclass(frozen=True, slots=True)
class AttemptFigures:
    """The attempts that were made at one replica for one pool."""

    pool: str
    replica: str
    attempts: int
    failed: int
    model_ns: int  # of attempts that answered with tokens, and
    output_tokens: int  # how many tokens that was


@dataclass(frozen=True, slots=True, kw_only=True)
class MixFigures:
    """A pool's prompts by length, and how long short ones waited. None: no such request."""

    requests: int
    long: int
    short_with_long: int
    short_with_long_queue_ns: float | None
    short_alone_queue_ns: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A series' mean (of a gauge) or growth (of a counter) over the window."""

    metric: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What is known of a pool beyond what is measured: where its replicas' metrics come from, and how its server batches."""

    pool: str
    model_name: str = ""  # what the server calls the model
    instances: frozenset[str] = frozenset()  # host:port of its replicas' metrics
    batch_window_ms: float | None = None
    batch_max: int | None = None
