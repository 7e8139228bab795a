"""What is known of one pool over a short window, as the rules for known causes see it.

Every part may be missing (None): then nobody measured it, and no rule that needs it says anything. Missing is never read as
zero. Times are means per request in milliseconds, shares are 0 to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStarts:
    """Requests that met a replica still loading or warming (`cold_start` in the ledger) beside the others."""

    requests: int
    cold_e2e_ms: float
    warm_e2e_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The server's batches: Triton's `dynamic_batching`, or what stands for it."""

    max_delay_ms: float  # how long a request may be held back for others to join (max_queue_delay_microseconds)
    max_size: int
    mean_size: float  # inference_count / execution_count over the window


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Lookups that could have been answered (bypassed and skipped ones aside), now and in the window before."""

    lookups: int
    hits: int
    lookups_before: int
    hits_before: int
    skipped: int = 0  # for want of an answer in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """Requests that were served in another region than they came from."""

    requests: int
    network_ms: float
    local_network_ms: float  # of those served in their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    us_per_token: float
    us_per_token_before: float
    busy: float | None = None  # of the tokenizer's threads, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMix:
    """Short prompts' wait in the queue, by whether a long prompt was being prefilled on their replica meanwhile."""

    long_share: float  # of requests
    short_requests: int  # with a long one before them
    short_queue_with_long_ms: float
    short_queue_alone_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    name: str
    requests: int
    errors: int
    model_ms: float  # per output token, so that long answers do not look like slow replicas


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
    replicas: tuple[Replica, ...] = ()  # by the attempts made at each
    failed: int = 0  # beside `requests`, which were answered
    refused: int = 0  # of the failed ones, those that no replica was there for
