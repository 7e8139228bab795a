"""A batch: what is written to the store at once, and the checkpoint that holds afterwards."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from controlplane.telemetry.core.spans import Caller, Span
from controlplane.telemetry.ingest.otlp.decode.export_request import Spans
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.ledger import LedgerRow, close
from controlplane.telemetry.ledger.loads import Load
from controlplane.telemetry.metrics.batch import Batch as Samples
from controlplane.telemetry.store.write.keys import RequestKey

from .fleet_names import FleetNames, named

log = structlog.get_logger(__name__)

_NOWHERE = Position(0, 0)
NEVER_NS = 2**63
Refuse = Callable[[Sequence[object], str], None]
"""Keeps items that cannot be stored, with the reason, in a file."""


@dataclass(slots=True)
class Batch:
    """Spans are written first, then rows, so that a row in the store always has its spans there."""

    spans: list[Spans] = field(default_factory=list)
    rows: list[tuple[LedgerRow, int]] = field(default_factory=list)  # with their versions, see `version_of`
    withdrawn: list[tuple[RequestKey, int]] = field(default_factory=list)
    """Rows of earlier closings that are no requests any more, with the versions of `withdrawal_of`."""
    amend: list[bytes] = field(default_factory=list)  # traces to be closed again with their spans in the store
    closed: list[bytes] = field(default_factory=list)  # all traces that it closes, `amend` among them
    callers: dict[bytes, Caller] = field(default_factory=dict)  # of lost traces, `closed` among them
    since_ns: int = NEVER_NS  # when the first of these began, or was received: ns since the Unix epoch
    loads: list[Load] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)  # metrics
    checkpoint: Position = _NOWHERE  # before it, everything is in the store once this batch is
    oldest_ns: int = 0  # receipt of the oldest record that is new in it, ns since the Unix epoch; 0 without any


def parts(batch: Batch) -> Iterator[Batch]:
    """The batch's contents one by one, spans first, for a batch that fails as a whole. They carry no checkpoint."""
    for spans in batch.spans:
        yield Batch(spans=[spans])
    for samples in batch.samples:
        yield Batch(samples=[samples])
    for load in batch.loads:
        yield Batch(loads=[load])
    rows, withdrawn = defaultdict[str, list[Any]](list), defaultdict[bytes, list[Any]](list)
    for row in batch.rows:
        rows[row[0].trace_id].append(row)
    for key in batch.withdrawn:
        withdrawn[key[0].trace_id].append(key)
    amend = set(batch.amend)
    for trace_id in batch.closed:
        yield Batch(
            rows=rows[trace_id.hex()],
            withdrawn=withdrawn[trace_id],
            amend=[trace_id] if trace_id in amend else [],
            closed=[trace_id],
            callers={trace_id: batch.callers[trace_id]} if trace_id in batch.callers else {},
            since_ns=batch.since_ns,
        )


def contents(part: Batch) -> list[object]:
    """The items in one of `parts`, in the form in which refused items are kept."""
    return [
        *(span for spans in part.spans for some in spans.parts() for span in spans.of(some)),
        *part.samples,
        *part.loads,
        *({"trace_id": trace_id.hex(), "rows": part.rows} for trace_id in part.closed),
    ]


def version_of(spans: list[Span], known: int = 0) -> int:
    """The version of a row that was made of these spans of its trace: twice the number of distinct spans.

    A row that was made of more spans wins, in any order of writing. `known` is the number of spans where `spans` are only the earliest.
    """
    return 2 * max(known, len({span.span_id for span in spans}))


def withdrawal_of(spans: list[Span], known: int = 0) -> int:
    """The version at which a row is withdrawn: it hides rows that were made of as many or fewer spans."""
    return version_of(spans, known) + 1


def rows_of(
    spans: list[Span], names: FleetNames, refused: Refuse = lambda items, reason: None
) -> list[LedgerRow] | None:
    """The trace's requests, with the fleet's names from `names`. None where closing fails, which is logged."""
    try:
        return named(close(spans), names)
    except Exception as error:
        trace_id = spans[0].trace_id.hex()
        log.exception("pipeline.trace_refused", trace_id=trace_id, spans=len(spans), kept_in="refused.jsonl")
        refused([{"trace_id": trace_id, "spans": len(spans)}], f"{type(error).__name__}: {error}")
        return None
