"""Measures each request's stages while it runs.

Entering a stage ends the one before, so there are no gaps. Times are monotonic (`time.perf_counter_ns`), and become
wall-clock times with one anchor per trace, so that children meet exactly.
"""

import time
from copy import copy
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from inference.contract.metering.text_audit import TextAudit
from inference.contract.snapshot import Pool
from inference.core import otlp
from inference.core.routing.balance import Weighed
from inference.observability.context import CallerTraces, Context, context, span_id, trace_id

now_ns = time.perf_counter_ns


class Stage(NamedTuple):
    """`stage` is the ledger's name of it."""

    span: str
    kind: int
    stage: str


RECEIVE = Stage("gateway.receive", otlp.INTERNAL, "gateway")
LOOKUP = Stage("cache.lookup", otlp.CLIENT, "cache")
EMBED = Stage("cache.embed", otlp.CLIENT, "cache")
SEARCH = Stage("cache.search", otlp.CLIENT, "cache")
VERIFY = Stage("cache.verify", otlp.INTERNAL, "cache")
LIMIT = Stage("limits.check", otlp.CLIENT, "gateway")
TOKENIZE = Stage("tokenizer.encode", otlp.INTERNAL, "tokenizer")
ADMIT = Stage("admission.wait", otlp.INTERNAL, "queue")
CONNECT = Stage("server.connect", otlp.CLIENT, "network")
INFER = Stage("model.infer", otlp.CLIENT, "model")
RESPOND = Stage("gateway.respond", otlp.INTERNAL, "egress")
WRITE = Stage("cache.write", otlp.CLIENT, "cache")
_SHARED = Stage("tokenizer.encode", otlp.INTERNAL, "tokenizer")  # the work of a flight, which begins with this stage


class Mark:
    """The start of a stage. `id` is the span's id if Triton's spans need it as their parent; else it is drawn when the span
    is encoded.

    For an attempt, `attempt` counts from 1, `end_ns` is when it ended (0 while it is under way), `error` is its
    `error.type` or empty, and `retried` says that another attempt followed. `beside` is the hedge that it was faster than,
    `weighed` what the choice of its replica was made of.
    """

    # Most marks are of no attempt, so what these have is not set each time.
    replica = pool = error = ""
    attempt = 1
    end_ns = first_token_ns = 0
    retried = False
    id = b""
    beside: "Mark | None" = None
    weighed: Weighed | None = None

    def __init__(self, stage: Stage, start_ns: int, replica: str = "", pool: str = "", attempt: int = 1) -> None:
        self.stage = stage
        self.start_ns = start_ns
        if replica:
            self.replica, self.pool, self.attempt = replica, pool, attempt

    def again(self, stage: Stage, start_ns: int) -> "Mark":
        """The same attempt in its next stage."""
        mark = Mark(stage, start_ns, self.replica, self.pool, self.attempt)
        mark.id, mark.weighed = self.id, self.weighed
        return mark


@dataclass(slots=True, eq=False)
class Trace:
    """One request's stages, and the attributes of its root span. Fields are set as they become known, and read once, when
    the trace is encoded.
    """

    start_ns: int
    traceparent: InitVar[bytes | None]
    operation: str
    context: Context = field(init=False)
    id: bytes = field(default_factory=span_id)
    end_ns: int = 0
    marks: list[Mark] = field(init=False)
    shared_marks: list[Mark] = field(default_factory=list)
    shared_end_ns: int = 0
    begun_ns: int = 0  # when the flight began, where that was beside a look-up
    beside: list[Mark] = field(default_factory=list)  # attempts beside a look-up, of which the request got nothing
    coalesced_with: tuple[bytes, bytes] | None = None
    caller: tuple[bytes, bytes] | None = None  # the span that it is linked to, because its trace is full
    model: str = ""
    variant: str = ""
    pool: str = ""
    region: str = ""
    caller_region: str = ""  # where it comes from; `region` is the pool's
    replica: str = ""
    tier: str = ""
    tenant: str = ""
    user: str = ""  # a hash of who the caller's token says that it is
    key: str = ""  # its key, by its name in spans
    outcome: str = "bypass"
    inputs: tuple[int, int] | None = None  # of a list: how many the cache had, and of how many
    status: str = "ok"
    http_status: int = 0
    error_type: str = ""
    error_stage: str = ""
    error_message: str = ""
    shed_reason: str = ""  # of a request that was refused so that others are served
    finish_reason: str = ""
    stream: bool = False
    cold_start: bool = False
    input_tokens: int = -1
    cached_tokens: int = -1  # of the input's, those that its server had in its cache
    output_tokens: int = -1
    ttft_ns: int = -1
    tokens_source: str = ""
    cost_usd: float | None = None  # None where it is not known
    policy_version: int = 0
    policy_rule: str = ""  # the owner's rule that it followed
    degraded: str = ""  # the step of a ladder that changed or refused it
    guarded: dict[str, None] | None = None  # which rules of its tenant did what
    audit: TextAudit | None = None  # of its texts, where its tenant asks for that
    repeated: bool = False  # the client said that it has sent it before
    can_wait: bool = False  # a line of the lane that nobody waits for
    idempotency_key: int = 0  # a hash of the client's idempotency key; 0 without one

    def __post_init__(self, traceparent: bytes | None) -> None:
        self.context = context(traceparent)
        self.marks = [Mark(RECEIVE, self.start_ns)]

    def leave_full(self, traces: CallerTraces) -> None:
        """Be a trace of its own where the caller's has enough requests."""
        if (own := traces.place(self.context)) is not None:
            self.caller, self.context = (self.context.trace_id, self.context.parent_id), own

    def show(self, pool: Pool) -> None:
        """The pool that serves it."""
        self.pool, self.variant, self.region = pool.name, pool.variant, pool.region

    def enter(self, stage: Stage) -> None:
        self.marks.append(Mark(stage, now_ns()))

    def current_stage(self) -> str:
        """The ledger's stage that the request is in."""
        marks = self.shared_marks if self.shared_marks and not self.shared_end_ns else self.marks
        return marks[-1].stage.stage

    def join(self, marks: list[Mark]) -> None:
        """Enter the stages of a flight, which `marks` lists, until `leave`."""
        self.marks.append(Mark(_SHARED, now_ns()))
        self.shared_marks = marks

    def overtake(self, marks: list[Mark], error: str) -> None:
        """Of a flight that began beside a look-up, the request gets nothing. `error` is the `error.type` of what is under way."""
        for mark in marks:
            if mark.stage is INFER:
                self.beside.append(own := copy(mark))
                own.error, own.end_ns = own.error or error, own.end_ns or now_ns()

    def leave(self, end_ns: int) -> None:
        """The flight ended for this request at `end_ns`. The next stage is its own answer."""
        self.shared_end_ns = max(end_ns, self.marks[-1].start_ns)
        self.marks.append(Mark(RESPOND, self.shared_end_ns))

    def stay(self) -> None:
        """The flight, which it has left, was not for it to the end. What it waited for becomes stages of its own, and it joins
        another flight.
        """
        responds, joined = self.marks.pop(), self.marks.pop()
        shared, out = self.shared_marks, list[tuple[Mark, int, int]]()
        self._shared_intervals(out, joined.start_ns, responds.start_ns)
        for mark, start_ns, _ in out:
            if mark in shared:  # else a hedge
                own = copy(mark)
                own.start_ns, own.id = start_ns, b""
                self.marks.append(own)
        self.shared_marks, self.shared_end_ns = [], 0

    def finish(self) -> None:
        self.end_ns = now_ns()

    def intervals(self) -> list[tuple[Mark, int, int]]:
        """The stages with start and end, without gaps from `start_ns` to `end_ns`. The stages of a flight are cut to the
        time in which this request waited for it, or since it began for this one. A hedge lies within the attempt that it is beside.
        """
        out: list[tuple[Mark, int, int]] = []
        marks = iter(self.marks)
        mark = next(marks)
        for following in marks:
            if mark.stage is _SHARED and self.shared_marks:
                self._shared_intervals(out, self.begun_ns or mark.start_ns, following.start_ns)
            else:
                out.append((mark, mark.start_ns, following.start_ns))
            mark = following
        if mark.stage is _SHARED and self.shared_marks:
            self._shared_intervals(out, self.begun_ns or mark.start_ns, self.end_ns)
        else:
            out.append((mark, mark.start_ns, self.end_ns))
        out += [(mark, mark.start_ns, min(mark.end_ns, self.end_ns)) for mark in self.beside]
        return out

    def _shared_intervals(self, out: list[tuple[Mark, int, int]], joined_ns: int, left_ns: int) -> None:
        """Those of a flight: the first begins when the request joined, and the last ends when it left."""
        shared = self.shared_marks
        start, last = joined_ns, len(shared) - 1
        for number, mark in enumerate(shared):
            stop = shared[number + 1].start_ns if number < last else left_ns
            stop = start if stop < start else left_ns if stop > left_ns else stop
            if stop > start:
                out.append((mark, start, stop))
                if (hedge := mark.beside) is not None and hedge.start_ns < stop:
                    out.append((hedge, max(hedge.start_ns, start), min(hedge.end_ns or stop, stop)))
            start = stop


class OwnCall:
    """A call of Weir's own to a model server, as `inference/contract/stages.py` says. A warm-up is the only one."""

    __slots__ = ("end_ns", "id", "pool", "replica", "start_ns", "trace_id")

    def __init__(self, pool: str, replica: str) -> None:
        self.pool, self.replica = pool, replica
        self.trace_id, self.id = trace_id(), span_id()
        self.start_ns = self.end_ns = now_ns()

    @property
    def traceparent(self) -> bytes:
        """For the server: not sampled, although some servers export it all the same."""
        return f"00-{self.trace_id.hex()}-{self.id.hex()}-00".encode()


class Written(NamedTuple):
    """A write to the cache after its request has ended."""

    trace_id: bytes
    parent_id: bytes
    start_ns: int
    end_ns: int
    stored: bool
