"""The ledger's row: one request, its stages in whole nanoseconds, and its dimensions."""

from dataclasses import dataclass, field

RATE_LIMITED = "rate_limit_exceeded"
"""`error_type` of a request that its tenant's rate limit refused."""
PROMPT_TOO_LONG = "context_length_exceeded"
PROMPT_BUCKET_EDGES = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
"""Upper edges of the buckets in tokens, exclusive. The last bucket has no upper edge."""


def bucket_start(name: str) -> int:
    """The fewest tokens of a bucket, by which buckets are in order: 512 of `"512-1023"`. -1 of a name that is none."""
    start = name.rstrip("+").partition("-")[0]
    return int(start) if start.isdecimal() else -1


def prompt_bucket(tokens: int | None) -> str:
    """The bucket's name, such as `"512-1023"` or `"131072+"`; empty where the length is not known."""
    if tokens is None:
        return ""
    low = 0
    for edge in PROMPT_BUCKET_EDGES:
        if tokens < edge:
            return f"{low}-{edge - 1}"
        low = edge
    return f"{low}+"


PROMPT_BUCKETS = tuple(map(prompt_bucket, (0, *PROMPT_BUCKET_EDGES)))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call to one replica."""

    pool: str
    replica: str
    outcome: str  # "ok", "error", or "cancelled": the client left, which says nothing about the replica
    error_type: str  # of an error: "unreachable", "timeout", a gRPC status, …
    retried: bool  # another attempt followed
    ns: int  # from its start to its end, within the request
    model_ns: int  # of the request's stages["model"]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One request. `sum(stages.values()) + unattributed_ns == e2e_ns == end_ns - start_ns`, exactly.

    The identity is (`trace_id`, `request_id`): the entry span, which late spans never change. `start_ns` may move when the client's span
    arrives late; `entry_start_ns` does not.
    """

    trace_id: str  # 32 hex digits
    request_id: str  # 16 hex digits: the entry span
    entry_start_ns: int
    start_ns: int
    end_ns: int
    e2e_ns: int
    stages: dict[str, int]  # every one of STAGES, ns
    unattributed_ns: int
    prefill_ns: int  # of stages["model"] without `retried_ns`, until the first token
    decode_ns: int  # of stages["model"] without `retried_ns`, after it
    ttft_ns: int | None
    ttft_definition: str  # "gateway", "client", "otel-server", or an engine's (docs/ledger.md); "" without a TTFT
    status: str  # "ok", "error", "cancelled", "rejected"
    http_status: int | None
    error_type: str
    error_stage: str
    operation: str  # "chat", "text_completion", …
    service: str
    model: str
    variant: str
    pool: str
    replica: str  # of the last attempt
    region: str
    tier: str
    tenant: str
    prompt_tokens: int | None
    output_tokens: int | None
    cache_outcome: str  # "hit", "semantic", "partial", "miss", "coalesced", "bypass", "skipped", ""
    stream: bool
    cold_start: bool
    cost_usd: float | None
    policy_version: int | None
    span_count: int
    adapter: str  # which adapter recognised the entry span: "weir", "triton", "vllm", "generic", …
    critical_path: tuple[str, ...] = field(default=())  # span ids in order of first appearance on the path
    attempts: tuple[Attempt, ...] = field(default=())  # in order; none where spans do not name their replica
    policy_rule: str = ""  # the routing rule that it followed
    degraded: str = ""  # the step of a ladder that changed or refused it
    caller_region: str = ""  # where it came from; `region` is where it was served
    repeated: bool = False  # its client said that it had sent it before
    can_wait: bool = False  # a line of the lane that nobody waits for
    cached_tokens: int | None = None  # of the prompt's, in its server's cache; None where it does not say
    idempotency_key: int = 0  # hash of its tenant and its client's idempotency key; 0 without one
    prompt_hash: str = ""  # of a tenant that asks for an audit of its texts (`inference.contract.metering.text_audit`)
    prompt_bytes: int | None = None
    answer_hash: str = ""
    answer_bytes: int | None = None
    guard: str = ""  # which rules of its tenant did what, such as "acme/cards masked, acme/mail reported"
    unmeasured: bool = False
    """A server's spans are missing, so that the time in its queue and on the network is within `model`, and not known."""
    origin: tuple[str, ...] = field(default=(), compare=False)
    """Where its spans say that they come from: addresses, pods, service names. Only where they name no pool. Not stored."""
    label_index: tuple[int, ...] = field(default=(), compare=False)
    attribute_index: tuple[int, ...] = field(default=(), compare=False)
    """Hashes of the attributes of its spans (`ledger.attribute_index`): labels, and all others. The store never reads them back."""

    @property
    def retried_ns(self) -> int:
        """The part of stages["model"] in attempts that another one followed."""
        return sum(attempt.model_ns for attempt in self.attempts if attempt.retried)

    @property
    def is_longer(self) -> bool:
        """`prompt_tokens` is a lower bound: the gateway counts no further than the prompt has to be refused for its length."""
        return self.error_type == PROMPT_TOO_LONG and self.error_stage == "tokenizer"

    @property
    def prompt_bucket(self) -> str:
        return prompt_bucket(self.prompt_tokens)
