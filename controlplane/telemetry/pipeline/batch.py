"""What goes into the store at once, and what is true once it is in there."""

from dataclasses import dataclass, field

import structlog

from controlplane.telemetry.ledger import LedgerRow, close
from controlplane.telemetry.metrics.batch import Batch as Samples
from controlplane.telemetry.otlp.decode import Spans
from controlplane.telemetry.spans import Span
from controlplane.telemetry.spool.frame import Position

log = structlog.get_logger(__name__)

_NOWHERE = Position(0, 0)
Key = tuple[bytes, bytes]
"""A request's identity: trace id and request id, raw."""


@dataclass(slots=True)
class Batch:
    """Spans first, then rows: a row in the store always has its spans there."""

    spans: list[Spans] = field(default_factory=list)
    rows: list[LedgerRow] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)  # of the rows, see `version_of`
    amend: list[bytes] = field(default_factory=list)  # traces to be closed again with what the store knows of them
    samples: list[Samples] = field(default_factory=list)  # metrics
    checkpoint: Position = _NOWHERE  # before it, everything is in the store once this batch is
    oldest_ns: int = 0  # receipt of the oldest record that is new in it, ns since the Unix epoch; 0 without any


def version_of(spans: list[Span]) -> int:
    """A row's version: how many distinct spans of its trace it was made from.

    It grows with what is known, whoever closes the trace and however often; the same spans give the same row at the same version.
    """
    return len({span.span_id for span in spans})


def rows_of(spans: list[Span]) -> list[LedgerRow]:
    """The trace's requests; none, and said so, where closing fails: one trace must not stop the others."""
    try:
        return close(spans)
    except Exception:
        log.exception("pipeline.trace_not_closed", trace_id=spans[0].trace_id.hex(), spans=len(spans))
        return []


def key_of(row: LedgerRow) -> Key:
    return bytes.fromhex(row.trace_id), bytes.fromhex(row.request_id)
