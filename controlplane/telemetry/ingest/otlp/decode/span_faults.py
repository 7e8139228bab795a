"""Checks single spans. The rest of a request is accepted, and the answer names the rule that refused spans broke."""

from typing import NamedTuple

from controlplane.telemetry.metrics.admission import AHEAD_NS

from .wire import MAX_MESSAGE_BYTES

LATEST_NS = 2**63
"""Times are stored as signed 64-bit nanoseconds: the year 2262."""
TOO_LARGE = f"a span is larger than {MAX_MESSAGE_BYTES} bytes"
UNREADABLE = "a span cannot be read: it is no protobuf, or a text of it is no UTF-8"

NO_TRACE_ID = "trace_id is not 16 bytes with one of them non-zero"
NO_SPAN_ID = "span_id is not 8 bytes with one of them non-zero"
NO_PARENT_ID = "parent_span_id is neither empty nor 8 bytes"
NO_START = "start_time_unix_nano is not set, or after the year 2262"
NO_END = "end_time_unix_nano is not set, or after the year 2262"
AHEAD = f"the span starts or ends more than {AHEAD_NS // 60_000_000_000} minutes ahead of the receiver's clock"
OLD = "the span starts before what is kept (WEIR_RETENTION_DAYS)"
REASONS = (TOO_LARGE, NO_TRACE_ID, NO_SPAN_ID, NO_PARENT_ID, NO_START, NO_END, AHEAD, OLD)
"""In the order of the faults that `kernel.read` counts."""

_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)


class Bounds(NamedTuple):
    """When spans may start and end, ns since the Unix epoch, both included."""

    earliest_ns: int = 1
    latest_ns: int = LATEST_NS - 1


ANY = Bounds()


def bounds(received_ns: int, retention_ns: int) -> Bounds:
    """The bounds of spans received at this time. The receiver's check and the pipeline's reading must use the same."""
    return Bounds(max(1, received_ns - retention_ns), min(received_ns + AHEAD_NS, LATEST_NS - 1))


def fault(trace_id: bytes, span_id: bytes, parent_id: bytes, start_ns: int, end_ns: int, within: Bounds = ANY) -> str:
    """Why this span is refused, with the name of the field. Empty for a valid span."""
    if len(trace_id) != 16 or trace_id == _NO_TRACE:
        return NO_TRACE_ID
    if len(span_id) != 8 or span_id == _NO_SPAN:
        return NO_SPAN_ID
    if len(parent_id) not in (0, 8):
        return NO_PARENT_ID
    if not 0 < start_ns < LATEST_NS:
        return NO_START
    if not 0 < end_ns < LATEST_NS:
        return NO_END
    if max(start_ns, end_ns) > within.latest_ns:
        return AHEAD
    if start_ns < within.earliest_ns:
        return OLD
    return ""
