"""Puts Triton's spans back into the trace they belong to, where Triton has lost the caller's `traceparent`.

Triton 2.51 starts a trace of its own for 1 to 8 of 100 streamed calls although the header was sent, whatever client sends it
(measured on loopback, docs/models.md). The gateway therefore gives each call its traceparent as the request id too, and Triton
repeats that in `triton.request_id`.
"""

import re
from collections.abc import Iterable

from controlplane.telemetry.spans import Span

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")


def rejoin(spans: Iterable[tuple[Span, int]]) -> list[tuple[Span, int]]:
    """One export's spans, each with its size. Spans of a trace that names another as its own move there, under the span it names.

    Triton exports the spans of one request together. Should a batch part them, those without the request id stay where they are.
    """
    given = list(spans)
    home: dict[bytes, tuple[bytes, bytes]] = {}
    for span, _ in given:
        said = span.attributes.get("triton.request_id")
        if isinstance(said, str) and (match := _TRACEPARENT.fullmatch(said)):
            trace_id, parent_id = (bytes.fromhex(part) for part in match.groups())
            if trace_id != span.trace_id:
                home[span.trace_id] = trace_id, parent_id
    return [
        (_moved(span, *home[span.trace_id]), size) if span.trace_id in home else (span, size) for span, size in given
    ]


def _moved(span: Span, trace_id: bytes, parent_id: bytes) -> Span:
    return span._replace(trace_id=trace_id, parent_id=span.parent_id or parent_id)
