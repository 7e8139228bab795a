"""Puts Triton's spans back into the trace they belong to, where Triton has lost the caller's `traceparent`.

Triton 2.51 starts a trace of its own for 1 to 8 of 100 streamed calls although the header was sent, whatever client sends it
(measured on loopback, docs/models.md). The gateway therefore gives each call its traceparent as the request id too, and Triton
repeats that in `triton.request_id` of its model's span. The trace and the span that it names are the lost trace's *home*.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controlplane.telemetry.core.spans import AttrValue, Span

ATTRIBUTE = "triton.request_id"
SIZE = 55
"""Bytes of a traceparent of version 00."""
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")

MOST_HOMES = 4096
"""Remembered at a time, about 1 MB: an hour of lost traces at one a second."""

Words = NDArray[np.uint64]


class Home(NamedTuple):
    """Where the spans of a lost trace belong: the trace, and the span that called. Raw ids."""

    trace_id: bytes
    parent_id: bytes


def home_of(trace_id: bytes, said: AttrValue | None) -> Home | None:
    """The home that a span of `trace_id` names by its `triton.request_id`; None where it names none, or its own trace."""
    if not isinstance(said, str) or not (match := _TRACEPARENT.fullmatch(said)):
        return None
    home = Home(*(bytes.fromhex(part) for part in match.groups()))
    return None if home.trace_id == trace_id else home


def moved(span: Span, home: Home) -> Span:
    """The span in its home: its trace's outermost span is called from there."""
    return span._replace(trace_id=home.trace_id, parent_id=span.parent_id or home.parent_id)


class Homes:
    """The homes of lost traces, the newest of them.

    Only the model's span names a home. It ends, and is exported, before the stream that it is a part of: what comes of that trace in
    later exports is known by this memory. What it does not know, the store does (pipeline/assembly.py).
    """

    def __init__(self) -> None:
        self._homes: dict[bytes, Home] = {}
        self._firsts: Words = np.empty(0, np.uint64)  # the first half of each lost trace's id, sorted

    def __len__(self) -> int:
        return len(self._homes)

    def get(self, trace_id: bytes) -> Home | None:
        return self._homes.get(trace_id)

    def learn(self, named: dict[bytes, Home]) -> dict[bytes, Home]:
        """Remember these, by the lost trace's id; those that are new."""
        new = {trace_id: home for trace_id, home in named.items() if self._homes.get(trace_id) != home}
        if new:
            self._homes |= new
            for trace_id in list(self._homes)[: max(0, len(self._homes) - MOST_HOMES)]:
                del self._homes[trace_id]
            self._firsts = np.sort(np.frombuffer(b"".join(self._homes), np.uint64)[::2])
        return new

    def among(self, firsts: Words) -> list[int]:
        """Which of these traces, by the first half of their ids, may be lost ones."""
        if not len(self._firsts):
            return []
        at = np.minimum(np.searchsorted(self._firsts, firsts), len(self._firsts) - 1)
        found: list[int] = np.flatnonzero(self._firsts[at] == firsts).tolist()
        return found
