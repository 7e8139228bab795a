"""Puts Triton's spans back into the trace they belong to, where Triton has lost the caller's `traceparent`.

Triton 2.51 starts a trace of its own for 1 to 8 of 100 streamed calls although the header was sent, whatever client sends it
(measured on loopback, docs/models.md). The gateway therefore gives each call its traceparent as the request id too, and Triton
repeats that in `triton.request_id`.
"""

import re
from collections.abc import Iterable

from controlplane.telemetry.spans import Span

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")


Homes = dict[bytes, tuple[bytes, bytes]]
"""The trace and the parent that a lost trace named, by its own id; the oldest first."""

MOST_HOMES = 4096
"""Remembered at a time, about 1 MB: an hour of lost traces at one a second."""


def rejoin(spans: Iterable[tuple[Span, int]], home: Homes) -> list[tuple[Span, int]]:
    """One export's spans, each with its size. Spans of a trace that names another as its own move there, under the span it names.

    Only the model's span carries the request id. It ends, and is exported, before the stream that it is a part of, so `home` is
    kept from one export to the next.
    """
    given = list(spans)
    for span, _ in given:
        said = span.attributes.get("triton.request_id")
        if isinstance(said, str) and (match := _TRACEPARENT.fullmatch(said)):
            trace_id, parent_id = (bytes.fromhex(part) for part in match.groups())
            if trace_id != span.trace_id:
                home[span.trace_id] = trace_id, parent_id
                if len(home) > MOST_HOMES:
                    del home[next(iter(home))]
    return [
        (_moved(span, *home[span.trace_id]), size) if span.trace_id in home else (span, size) for span, size in given
    ]


def _moved(span: Span, trace_id: bytes, parent_id: bytes) -> Span:
    return span._replace(trace_id=trace_id, parent_id=span.parent_id or parent_id)
