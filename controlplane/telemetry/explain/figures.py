"""Figures of pools in one window: sums, so that they add up over replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """The ledger's rows of one pool, model, region and replica. Times are sums in ns.

    Times and `requests` are of answered requests (status `ok`), and `own_…` of those that the replica itself answered, without those
    of a cache.
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
    refused: int = 0  # failed because no replica was up
    own_e2e_ns: int = 0
    own_network_ns: int = 0
    cold: int = 0
    cold_e2e_ns: int = 0
    cache_hits: int = 0  # with coalesced requests
    cache_lookups: int = 0
    cache_skipped: int = 0
    tokenizer_ns: int = 0  # of tokenised requests
    tokenized: int = 0  # their number of tokens
    model_ns: int = 0  # of requests with output
    output_tokens: int = 0  # their number of output tokens


@dataclass(frozen=True, slots=True)
class AttemptFigures:
    """The attempts at one replica for one pool."""

    pool: str
    replica: str
    attempts: int
    failed: int
    model_ns: int  # of attempts that answered with tokens
    output_tokens: int  # their number of output tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class MixFigures:
    """A pool's prompts by length, and how long short ones waited. None where there is no such request."""

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
    """A pool's configuration: where its replicas' metrics come from, and how its server batches."""

    pool: str
    model_name: str = ""  # what the server calls the model
    instances: frozenset[str] = frozenset()  # host:port of its replicas' metrics
    batch_window_ms: float | None = None
    batch_max: int | None = None
