"""What is known of one pool over a short window: the input of the rules for known causes.

A part that nobody measured is None, never zero, and no rule that needs it names a cause. Times are means per request in
milliseconds, shares are 0 to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStarts:
    """Requests that met a loading or warming replica (`cold_start` in the ledger), and the others."""

    requests: int
    cold_e2e_ms: float
    warm_e2e_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The server's batches, such as Triton's `dynamic_batching`."""

    max_delay_ms: float  # how long a request may wait for others to join (max_queue_delay_microseconds)
    max_size: int
    mean_size: float  # inference_count / execution_count over the window


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Lookups without bypassed and skipped ones, now and in the window before."""

    lookups: int
    hits: int
    lookups_before: int
    hits_before: int
    skipped: int = 0  # Redis did not answer in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """Requests served in another region than they came from."""

    requests: int
    network_ms: float
    local_network_ms: float  # of requests served in their own region


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    us_per_token: float
    us_per_token_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMix:
    """How long short prompts waited in the queue, with and without a long prompt in prefill on their replica."""

    long_share: float  # of requests
    short_requests: int  # behind a long one
    short_queue_with_long_ms: float
    short_queue_alone_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    name: str
    requests: int
    errors: int
    model_ms: float | None  # per output token, so that long answers do not look like slow replicas; None without any


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One pool."""

    pool: str
    requests: int
    e2e_ms: float
    stage_ms: Mapping[str, float] = field(default_factory=dict)
    queue_depth: float | None = None  # requests waiting per replica, mean over the window
    gpu_utilisation: float | None = None
    cold_starts: ColdStarts | None = None
    batching: Batching | None = None
    cache: Cache | None = None
    regions: Regions | None = None
    tokenizer: Tokenizer | None = None
    prompts: PromptMix | None = None
    replicas: tuple[Replica, ...] = ()  # by their attempts
    failed: int = 0  # not among `requests`, which are answered
    refused: int = 0  # failed because no replica was up
