"""Moves Triton's spans into the trace they belong to, where Triton has lost the caller's `traceparent`.

Triton 2.51 starts a new trace for 1 to 8 of 100 streamed calls although every client sends the header (measured on loopback,
docs/models.md). The gateway therefore sends the traceparent as the request id too, and Triton repeats it in `triton.request_id` of its
model's span. The span that it names, in its trace, is the *caller* of the lost trace.
"""

import re

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.core.spans import AttrValue, Caller, Span

ATTRIBUTE = "triton.request_id"
SIZE = 55
"""Bytes of a traceparent of version 00."""
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")

MAX_LOST_TRACES = 4096
"""How many are remembered, about 1 MB: an hour of lost traces at one per second."""

Words = NDArray[np.uint64]


def named_caller(trace_id: bytes, request_id: AttrValue | None) -> Caller | None:
    """The caller that a span's `triton.request_id` names. None where it names none, or the span's own trace."""
    if not isinstance(request_id, str) or not (match := _TRACEPARENT.fullmatch(request_id)):
        return None
    caller = Caller(*(bytes.fromhex(part) for part in match.groups()))
    return None if caller.trace_id == trace_id else caller


def moved(span: Span, caller: Caller) -> Span:
    """The span in its caller's trace. A root becomes a child of the calling span."""
    return span._replace(trace_id=caller.trace_id, parent_id=span.parent_id or caller.parent_id)


class LostTraces:
    """The callers of the newest lost traces.

    Only the model's span names a caller. It is exported before the stream ends that it is part of, so later spans of the same trace are
    recognised by this memory. The store knows the callers that are not in it (pipeline/assembly.py).
    """

    def __init__(self) -> None:
        self._callers: dict[bytes, Caller] = {}
        self._firsts: Words = np.empty(0, np.uint64)  # the first half of each lost trace's id, sorted

    def __len__(self) -> int:
        return len(self._callers)

    def get(self, trace_id: bytes) -> Caller | None:
        return self._callers.get(trace_id)

    def learn(self, named: dict[bytes, Caller]) -> dict[bytes, Caller]:
        """Remember these callers by the lost trace's id. Returns those that are new."""
        new = {trace_id: caller for trace_id, caller in named.items() if self._callers.get(trace_id) != caller}
        if new:
            self._callers |= new
            for trace_id in list(self._callers)[: max(0, len(self._callers) - MAX_LOST_TRACES)]:
                del self._callers[trace_id]
            self._firsts = np.sort(np.frombuffer(b"".join(self._callers), np.uint64)[::2])
        return new

    def among(self, firsts: Words) -> list[int]:
        """The indexes of traces that may be lost, by the first half of their ids."""
        if not len(self._firsts):
            return []
        at = np.minimum(np.searchsorted(self._firsts, firsts), len(self._firsts) - 1)
        indexes: list[int] = np.flatnonzero(self._firsts[at] == firsts).tolist()
        return indexes
