"""Measures each request's stages while it runs, and encodes the spans of docs/architecture.md afterwards.

Entering a stage ends the one before, so there are no gaps. Times are monotonic (`time.perf_counter_ns`), and become
wall-clock times with one anchor per trace, so that children meet exactly.
"""

import random
import time
from functools import lru_cache
from typing import NamedTuple

from inference.core import otlp

now_ns = time.perf_counter_ns
_random = random.SystemRandom()
_ids = random.Random(_random.getrandbits(128))  # noqa: S311  (ids, not secrets; reading the system's each time costs more than a span)


def span_id() -> bytes:
    return (_ids.getrandbits(64) or 1).to_bytes(8, "big")


def trace_id() -> bytes:
    return (_ids.getrandbits(128) or 1).to_bytes(16, "big")


class Stage(NamedTuple):
    """`stage` is the ledger's name of it."""

    span: str
    kind: int
    stage: str


RECEIVE = Stage("gateway.receive", otlp.INTERNAL, "gateway")
LOOKUP = Stage("cache.lookup", otlp.CLIENT, "cache")
TOKENIZE = Stage("tokenizer.encode", otlp.INTERNAL, "tokenizer")
ADMIT = Stage("admission.wait", otlp.INTERNAL, "queue")
INFER = Stage("model.infer", otlp.CLIENT, "model")
RESPOND = Stage("gateway.respond", otlp.INTERNAL, "egress")
WRITE = Stage("cache.write", otlp.CLIENT, "cache")
_SHARED = Stage("tokenizer.encode", otlp.INTERNAL, "tokenizer")  # the work of a flight, which begins with this stage


class Mark:
    """The start of a stage. `id` is the span's id if Triton's spans need it as their parent; else it is drawn when the span
    is encoded.

    For an attempt, `attempt` counts from 1, `end_ns` is when it ended (0 while it is under way), `error` is its
    `error.type` or empty, and `retried` says that another attempt followed.
    """

    __slots__ = (
        "attempt",
        "end_ns",
        "error",
        "first_token_ns",
        "id",
        "pool",
        "replica",
        "retried",
        "stage",
        "start_ns",
    )

    def __init__(self, stage: Stage, start_ns: int, replica: str = "", pool: str = "", attempt: int = 1) -> None:
        self.stage = stage
        self.start_ns = start_ns
        self.replica = replica
        self.pool = pool
        self.attempt = attempt
        self.end_ns = 0
        self.error = ""
        self.retried = False
        self.first_token_ns = 0
        self.id = b""

    def again(self, stage: Stage, start_ns: int) -> "Mark":
        """The same attempt in its next stage."""
        mark = Mark(stage, start_ns, self.replica, self.pool, self.attempt)
        mark.id = self.id
        return mark


class Context(NamedTuple):
    """W3C trace context: the request's place in its caller's trace. `parent_id` is empty if it starts a trace."""

    trace_id: bytes
    parent_id: bytes
    flags: bytes  # two hex digits; passed on, but every request is recorded, because the ledger counts all


def context(traceparent: bytes | None) -> Context:
    """Continue the caller's trace, or start a new one if `traceparent` is not valid."""
    if traceparent is not None and len(traceparent) >= 55:
        version, trace, parent, flags = traceparent[:2], traceparent[3:35], traceparent[36:52], traceparent[53:55]
        dashes = traceparent[2:3] + traceparent[35:36] + traceparent[52:53]
        length_fits = len(traceparent) == 55 or (version != b"00" and traceparent[55:56] == b"-")
        if dashes == b"---" and version != b"ff" and length_fits and _hex(version + trace + parent + flags):
            trace_raw, parent_raw = bytes.fromhex(trace.decode()), bytes.fromhex(parent.decode())
            if any(trace_raw) and any(parent_raw):
                return Context(trace_raw, parent_raw, flags)
    return Context(trace_id(), b"", b"01")


_LEFT = frozenset(("client_disconnected", "cancelled"))  # `error.type` of attempts whose requests had left
_HEX = frozenset(b"0123456789abcdef")


def _hex(text: bytes) -> bool:
    return _HEX.issuperset(text)


class Trace:
    """One request's stages, and the attributes of its root span. Fields are set as they become known, and read once, when
    the trace is encoded.
    """

    __slots__ = (
        "coalesced_with",
        "cold_start",
        "context",
        "cost_usd",
        "end_ns",
        "error_message",
        "error_stage",
        "error_type",
        "finish_reason",
        "http_status",
        "id",
        "input_tokens",
        "marks",
        "model",
        "operation",
        "outcome",
        "output_tokens",
        "policy_version",
        "pool",
        "region",
        "replica",
        "shared_end_ns",
        "shared_marks",
        "start_ns",
        "status",
        "stream",
        "tenant",
        "tier",
        "ttft_ns",
        "variant",
    )

    def __init__(self, start_ns: int, traceparent: bytes | None, operation: str) -> None:
        self.context = context(traceparent)
        self.id = span_id()
        self.operation = operation
        self.start_ns = start_ns
        self.end_ns = 0
        self.marks = [Mark(RECEIVE, start_ns)]
        self.shared_marks: list[Mark] = []
        self.shared_end_ns = 0
        self.coalesced_with: tuple[bytes, bytes] | None = None
        self.model = self.variant = self.pool = self.region = self.replica = self.tier = self.tenant = ""
        self.outcome = "bypass"
        self.status = "ok"
        self.http_status = 0
        self.error_type = self.error_stage = self.error_message = ""
        self.finish_reason = ""
        self.stream = self.cold_start = False
        self.input_tokens = self.output_tokens = -1
        self.ttft_ns = -1
        self.cost_usd = 0.0
        self.policy_version = 0

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

    def leave(self, end_ns: int) -> None:
        """The flight ended for this request at `end_ns`. The next stage is its own answer."""
        self.shared_end_ns = max(end_ns, self.marks[-1].start_ns)
        self.marks.append(Mark(RESPOND, self.shared_end_ns))

    def finish(self) -> None:
        self.end_ns = now_ns()

    def intervals(self) -> list[tuple[Mark, int, int]]:
        """The stages with start and end, without gaps from `start_ns` to `end_ns`. The stages of a flight are cut to the
        time in which this request waited for it.
        """
        out: list[tuple[Mark, int, int]] = []
        for index, mark in enumerate(self.marks):
            end = self.marks[index + 1].start_ns if index + 1 < len(self.marks) else self.end_ns
            if mark.stage is _SHARED and self.shared_marks:
                shared = self.shared_marks
                for number, part in enumerate(shared):
                    # The first begins when the request joined, and the last ends when it left.
                    start = mark.start_ns if number == 0 else min(max(part.start_ns, mark.start_ns), end)
                    stop = min(max(shared[number + 1].start_ns, start), end) if number + 1 < len(shared) else end
                    if stop > start:
                        out.append((part, start, stop))
            else:
                out.append((mark, mark.start_ns, end))
        return out


@lru_cache(maxsize=4096)
def _attempt_attributes(replica: str, pool: str, attempt: int, error: str, retried: bool) -> bytes:
    """The attributes of an attempt. There are few combinations, so each is encoded once; likewise below."""
    values: dict[str, otlp.Value] = {
        "weir.stage": INFER.stage,
        "weir.replica": replica,
        "weir.pool": pool,
        "weir.attempt": attempt,
    }
    if error:
        values["error.type"] = error
    if retried:
        values["weir.retried"] = True
    return b"".join(otlp.attribute(key, value) for key, value in values.items())


def _attempt_error(trace: Trace, mark: Mark, end_ns: int) -> str:
    """The `error.type` of an attempt, as this request saw it. If the request left before the attempt ended, it is the
    request's own.
    """
    if 0 < mark.end_ns <= end_ns or not trace.error_type:
        return mark.error
    return trace.error_type if trace.error_stage == INFER.stage else "cancelled"


@lru_cache(maxsize=4096)
def _stage_attributes(stage: Stage, outcome: str) -> bytes:
    out = otlp.attribute("weir.stage", stage.stage)
    if stage is LOOKUP:
        out += otlp.attribute("weir.cache.outcome", outcome)
    if stage is LOOKUP or stage is WRITE:
        out += otlp.attribute("db.system.name", "redis")
        out += otlp.attribute("db.operation.name", "GET" if stage is LOOKUP else "SET")
    return out


@lru_cache(maxsize=4096)
def _root_attributes(
    operation: str,
    model: str,
    stream: bool,
    http_status: int,
    variant: str,
    pool: str,
    replica: str,
    region: str,
    tier: str,
    tenant: str,
    status: str,
    outcome: str,
    cold_start: bool,
    policy_version: int,
    finish_reason: str,
    error_type: str,
    error_stage: str,
) -> bytes:
    values: dict[str, otlp.Value] = {
        "weir.request": True,
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "weir",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.request.stream": stream,
        "http.response.status_code": http_status,
        "weir.model": model,
        "weir.variant": variant,
        "weir.pool": pool,
        "weir.replica": replica,
        "weir.region": region,
        "weir.tier": tier,
        "weir.tenant": tenant,
        "weir.status": status,
        "weir.cache.outcome": outcome,
        "weir.cold_start": cold_start,
        "weir.policy_version": policy_version,
    }
    if finish_reason:
        values["gen_ai.response.finish_reasons"] = (finish_reason,)
    if error_type:
        values |= {"error.type": error_type, "weir.error_stage": error_stage}
    return b"".join(otlp.attribute(key, value) for key, value in values.items())


def encode_trace(trace: Trace, offset_ns: int) -> bytes:
    """All spans of a request that has ended, as fields of a ScopeSpans. `offset_ns` is wall clock minus monotonic."""
    trace_id, parent_id, _ = trace.context
    out: list[bytes] = []
    for mark, start, end in trace.intervals():
        stage = mark.stage
        identity, error = b"", ""
        if stage is not INFER:
            rest = _stage_attributes(stage, trace.outcome)
        else:
            error = _attempt_error(trace, mark, end)
            rest = _attempt_attributes(mark.replica, mark.pool, mark.attempt, error, mark.retried)
            if start <= mark.first_token_ns <= end:
                rest += otlp.event(mark.first_token_ns + offset_ns, "first_token")
            if trace.coalesced_with is None:
                identity = mark.id
            else:  # under an id of its own, because Triton's spans are children of the leader's span
                rest += otlp.link(*trace.coalesced_with)
        out.append(
            otlp.span(
                trace_id,
                identity or span_id(),
                trace.id,
                stage.span,
                stage.kind,
                start + offset_ns,
                end + offset_ns,
                rest,
                error=error if error and error not in _LEFT else None,
            )
        )
    rest = _root_attributes(
        trace.operation,
        trace.model,
        trace.stream,
        trace.http_status,
        trace.variant,
        trace.pool,
        trace.replica,
        trace.region,
        trace.tier,
        trace.tenant,
        trace.status,
        trace.outcome,
        trace.cold_start,
        trace.policy_version,
        trace.finish_reason,
        trace.error_type,
        trace.error_stage,
    ) + otlp.attribute("weir.cost_usd", trace.cost_usd)
    if trace.input_tokens >= 0:
        rest += otlp.attribute("gen_ai.usage.input_tokens", trace.input_tokens)
    if trace.output_tokens >= 0:
        rest += otlp.attribute("gen_ai.usage.output_tokens", trace.output_tokens)
    if trace.ttft_ns >= 0:
        rest += otlp.attribute("weir.ttft_ns", trace.ttft_ns)
        rest += otlp.attribute("gen_ai.response.time_to_first_chunk", trace.ttft_ns / 1e9)
    out.append(
        otlp.span(
            trace_id,
            trace.id,
            parent_id,
            f"{trace.operation} {trace.model}" if trace.model else trace.operation,
            otlp.SERVER,
            trace.start_ns + offset_ns,
            trace.end_ns + offset_ns,
            rest,
            error=trace.error_message if trace.status == "error" else None,
        )
    )
    return b"".join(out)


class Written(NamedTuple):
    """A write to the cache after its request has ended."""

    trace_id: bytes
    parent_id: bytes
    start_ns: int
    end_ns: int
    stored: bool


def encode_write(write: Written, offset_ns: int) -> bytes:
    return otlp.span(
        write.trace_id,
        span_id(),
        write.parent_id,
        WRITE.span,
        WRITE.kind,
        write.start_ns + offset_ns,
        write.end_ns + offset_ns,
        _stage_attributes(WRITE, ""),
        error=None if write.stored else "not stored",
    )
