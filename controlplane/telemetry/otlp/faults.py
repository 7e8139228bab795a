"""What makes a single span unusable. The rest of its request is taken; the sender is told which rule it broke."""

LATEST_NS = 2**63
"""Times are stored as signed 64-bit nanoseconds: the year 2262."""
MAX_SPAN_BYTES = 4 * 2**20
"""One span, resource or scope. What is built of it in memory may be fifty times that."""
TOO_LARGE = f"a span is larger than {MAX_SPAN_BYTES} bytes"

NO_TRACE_ID = "trace_id is not 16 bytes with one of them non-zero"
NO_SPAN_ID = "span_id is not 8 bytes with one of them non-zero"
NO_PARENT_ID = "parent_span_id is neither empty nor 8 bytes"
NO_START = "start_time_unix_nano is not set, or after the year 2262"
NO_END = "end_time_unix_nano is not set, or after the year 2262"
REASONS = (TOO_LARGE, NO_TRACE_ID, NO_SPAN_ID, NO_PARENT_ID, NO_START, NO_END)
"""In the order of `kernel.FAULTS`."""

_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)


def fault(trace_id: bytes, span_id: bytes, parent_id: bytes, start_ns: int, end_ns: int) -> str:
    """Why this span is refused, naming the field, or empty where it is fine."""
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
    return ""
