"""Exemplars: single measurements with the id of their trace, so that a point of a chart links to a request.

An exemplar without a trace id is not kept. Invalid exemplars and those above the limits are dropped and counted; their samples are kept.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from .admission import time_fault

MAX_PER_SERIES, MAX_PER_REQUEST, MAX_LOOKED_AT = 32, 5_000, 20_000
"""Limits of one request or scraped page: exemplars of a series, exemplars in all, and how many are checked, those without a trace among
them."""

NO_TRACE = "the exemplar has no trace id"
TOO_MANY = f"more than {MAX_PER_SERIES} exemplars of one series, or {MAX_PER_REQUEST} in one request"
UNREADABLE = "the exemplar cannot be read"
NO_SERIES = "the exemplar's series is refused"

TRACE_LABELS = frozenset({"trace_id", "traceID", "TraceID"})
SPAN_LABELS = frozenset({"span_id", "spanID", "SpanID"})
T = TypeVar("T")
_HEX = re.compile(r"[0-9a-fA-F]+")
_NO_TRACE_ID, _NO_SPAN_ID = bytes(16), bytes(8)


class Exemplar(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`trace_id` has 16 raw bytes, `span_id` 8 or none. `value` has the unit of its series."""

    series: int
    time_ns: int
    value: float
    trace_id: bytes
    span_id: bytes = b""


class Exemplars:
    """Checks the exemplars of a request one by one. `dropped` counts them by reason."""

    def __init__(self, now_ns: int, retention_ns: int) -> None:
        self._now_ns, self._retention_ns = now_ns, retention_ns
        self.kept: list[Exemplar] = []
        self.dropped: Counter[str] = Counter()
        self._of: Counter[int] = Counter()
        self._looked_at = 0

    @property
    def faults(self) -> dict[str, int]:
        """The dropped exemplars that the answer to the sender mentions: all but those without a trace."""
        return {reason: count for reason, count in self.dropped.items() if reason != NO_TRACE}

    def drop(self, reason: str, count: int = 1) -> None:
        if count > 0:
            self.dropped[reason] += count

    def some(self, given: Sequence[T]) -> Sequence[T]:
        """The exemplars of one series that are checked. Others above the limit are dropped."""
        room = min(MAX_PER_SERIES, MAX_LOOKED_AT - self._looked_at)
        self.drop(TOO_MANY, len(given) - room)
        kept = given[:room]
        self._looked_at += len(kept)
        return kept

    def add(self, series: int | None, time_ns: int, value: float, trace_id: bytes, span_id: bytes = b"") -> bool:
        """Keep an exemplar. False where it is dropped, also where its series was refused (None)."""
        if reason := self._fault(series, time_ns, value, trace_id):
            self.dropped[reason] += 1
            return False
        assert series is not None
        self._of[series] += 1
        span_id = span_id if len(span_id) == 8 and span_id != _NO_SPAN_ID else b""
        self.kept.append(Exemplar(series, time_ns, value, trace_id, span_id))
        return True

    def labelled(self, series: int | None, time_ns: int, value: float, labels: Iterable[tuple[str, str]]) -> bool:
        """As `add`, for an exemplar whose ids are hexadecimal labels."""
        trace_id, span_id = linked(labels)
        return self.add(series, time_ns, value, trace_id, span_id)

    def _fault(self, series: int | None, time_ns: int, value: float, trace_id: bytes) -> str:
        if not trace_id or trace_id == _NO_TRACE_ID:
            return NO_TRACE
        if len(trace_id) != 16:
            return "the exemplar's trace id is not 16 bytes (32 hexadecimal digits)"
        if series is None:
            return NO_SERIES
        if not math.isfinite(value):
            return "the exemplar's value is not a finite number"
        if fault := time_fault(time_ns, self._now_ns, self._retention_ns):
            return fault.replace("the sample", "the exemplar")
        if self._of[series] >= MAX_PER_SERIES or len(self.kept) >= MAX_PER_REQUEST:
            return TOO_MANY
        return ""


def linked(labels: Iterable[tuple[str, str]]) -> tuple[bytes, bytes]:
    """Trace and span id from an exemplar's labels: empty where missing, a single zero byte where invalid.

    Trace ids of 64 bits are padded with zeros, as OpenTelemetry does for Jaeger and Zipkin.
    """
    trace_id = span_id = b""
    for name, value in labels:
        if name in TRACE_LABELS:
            trace_id = _id(value, 16)
        elif name in SPAN_LABELS:
            span_id = _id(value, 8)
    return trace_id, span_id


def _id(text: str, size: int) -> bytes:
    if not text:
        return b""
    return bytes.fromhex(text.zfill(2 * size)) if 16 <= len(text) <= 2 * size and _HEX.fullmatch(text) else b"\0"
