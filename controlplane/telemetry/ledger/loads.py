"""Finds models' loads into servers, which are cold starts and no requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger import dimensions
from controlplane.telemetry.ledger.adapters import read
from controlplane.telemetry.ledger.attributes import text


@dataclass(frozen=True, slots=True)
class Load:
    """A server loaded a model from `start_ns` to `end_ns`, ns since the epoch. Names are empty where the spans have none."""

    trace_id: bytes
    span_id: bytes
    start_ns: int
    end_ns: int
    adapter: str
    service: str
    model: str
    pool: str
    replica: str
    origin: tuple[str, ...] = field(default=(), compare=False)  # as `LedgerRow.origin`


def loads(spans: Sequence[Span]) -> list[Load]:
    """Those that ended among these spans."""
    return [
        Load(
            span.trace_id,
            span.span_id,
            span.start_ns,
            span.end_ns,
            reading.adapter,
            span.service,
            text(span.attributes, *dimensions.MODEL) or text(span.resource, *dimensions.MODEL),
            text(span.resource, "weir.pool"),
            text(span.resource, "weir.replica"),
            dimensions.origin(None, span),
        )
        for span in spans
        if (reading := read(span)).load
    ]
