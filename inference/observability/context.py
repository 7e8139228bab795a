"""Ids of spans and traces, and W3C trace context (https://www.w3.org/TR/trace-context/)."""

import random
from typing import NamedTuple

_random = random.SystemRandom()
_ids = random.Random(_random.getrandbits(128))  # noqa: S311  (ids, not secrets; reading the system's each time costs more than a span)


TRACEPARENT_BYTES = 55
"""Of a `traceparent` that the gateway sends: version 00."""


def span_ids(number: int) -> bytes:
    """As many ids, one after the other, of 8 bytes each."""
    return _ids.randbytes(8 * number)


def span_id() -> bytes:
    return (_ids.getrandbits(64) or 1).to_bytes(8, "big")


def trace_id() -> bytes:
    return (_ids.getrandbits(128) or 1).to_bytes(16, "big")


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


class CallerTraces:
    """Counts requests by the traces that callers want them in. A client that sends one trace id for ever would make a trace so
    large that the ledger leaves requests of it out, and that costs more with each request.
    """

    MAX_REQUESTS = 100
    """Of a trace, in one process: a tenth of the spans of which the ledger makes rows."""
    MAX_TRACES = 10_000
    """Remembered, the latest."""

    def __init__(self) -> None:
        self._requests: dict[bytes, int] = {}  # the trace that came last is the last

    def place(self, wanted: Context) -> Context | None:
        """A trace of its own for a request whose caller's trace is full; None where it may have its place."""
        if not wanted.parent_id:
            return None
        requests = self._requests.pop(wanted.trace_id, 0) + 1
        self._requests[wanted.trace_id] = requests
        if len(self._requests) > self.MAX_TRACES:
            del self._requests[next(iter(self._requests))]
        return Context(trace_id(), b"", wanted.flags) if requests > self.MAX_REQUESTS else None


_HEX = frozenset(b"0123456789abcdef")


def _hex(text: bytes) -> bool:
    return _HEX.issuperset(text)
