"""The loop of one pipeline process: read what is committed, decode, group, close, hand on."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from controlplane.telemetry.metrics import batch as metrics
from controlplane.telemetry.otlp import decode
from controlplane.telemetry.spool.frame import Kind, Position, Record
from controlplane.telemetry.spool.reader import SpoolReader

from .batch import Batch, rows_of, version_of
from .recent import Recent
from .sink import Sink
from .traces import Limits, OpenTrace, Traces

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch goes when it is this old or this large, whichever comes first."""

    age_s: float = 0.5
    spans: int = 20_000
    bytes: int = 16 * 2**20


class Worker:
    """One shard: the traces whose id's last byte is `shard` modulo `shards`. `frontier()` is how far the spool is committed."""

    def __init__(
        self,
        reader: SpoolReader,
        sink: Sink,
        recent: Recent,
        frontier: Callable[[], Position],
        *,
        shard: int = 0,
        shards: int = 1,
        limits: Limits | None = None,
        batches: BatchLimits | None = None,
    ) -> None:
        self._reader, self._sink, self._frontier = reader, sink, frontier
        self._shard, self._shards = shard, shards
        self._batches = batches or BatchLimits()
        self._traces = Traces(limits or Limits())
        self._recent = recent
        self._added = reader.position  # everything before it is in `_traces` or done with
        self._batch = Batch(checkpoint=reader.position)
        self._spans = self._bytes = 0  # of the batch, on the wire
        self._since_s: float | None = None  # when the batch got something to write

    @property
    def pending_traces(self) -> int:
        return len(self._traces)

    def step(self) -> float:
        """Work off some of what is there. How long to wait then, in seconds, unless the frontier moves before."""
        records = self._reader.read(self._frontier())
        for record in records:
            self._add(record)
        self._added = self._reader.position
        now_s = time.monotonic()
        if due := self._traces.due(now_s):
            self._since_s = self._since_s or now_s
            self._close(due)
        if self._full or (self._since_s is not None and now_s - self._since_s >= self._batches.age_s):
            self._hand_on()
        if records:
            return 0.0
        at_s = [self._since_s + self._batches.age_s] if self._since_s is not None else []
        if (due_s := self._traces.next_due_s()) is not None:
            at_s.append(due_s)
        return max(0.01, min(at_s) - now_s) if at_s else 1.0

    @property
    def _full(self) -> bool:
        return self._spans >= self._batches.spans or self._bytes >= self._batches.bytes

    def _add(self, record: Record) -> None:
        if self._since_s is None:
            self._since_s = time.monotonic()
        if record.kind == Kind.SAMPLES:
            self._add_samples(record)
            return
        try:
            for spans in decode.read(record.kind, record.payload, self._shard, self._shards):
                self._traces.add(spans, record.start, time.monotonic())
                self._batch.oldest_ns = self._batch.oldest_ns or record.received_ns
                self._batch.spans.append(spans)
                self._spans += len(spans)
                self._bytes += spans.size
                if self._full:
                    self._added = record.start  # the rest of this record may still come
                    self._hand_on()
        except decode.Malformed as error:
            # The receiver has judged this body: only another version's could come here.
            log.error("pipeline.unreadable", position=record.start, error=str(error))  # noqa: TRY400

    def _add_samples(self, record: Record) -> None:
        """Metrics are the first shard's; the others only move their checkpoint."""
        if self._shard:
            return
        self._batch.oldest_ns = self._batch.oldest_ns or record.received_ns
        self._batch.samples.append(metrics.decode(record.payload))
        self._bytes += len(record.payload)
        if self._full:
            self._added = record.end
            self._hand_on()

    def _close(self, due: list[tuple[bytes, OpenTrace]]) -> None:
        trace_ids = [trace_id for trace_id, _ in due]
        known = self._recent.may_know(trace_ids, [trace.earliest_ns for _, trace in due])
        for (trace_id, trace), doubtful in zip(due, known, strict=True):
            if doubtful:
                self._batch.amend.append(trace_id)
                continue
            spans = trace.spans()
            rows = rows_of(spans)
            self._batch.rows += rows
            self._batch.versions += [version_of(spans)] * len(rows)
        self._recent.add(trace_ids, time.time_ns())

    def _hand_on(self) -> None:
        """Blocks while the store does not keep up."""
        batch, self._batch, self._spans, self._bytes, self._since_s = self._batch, Batch(), 0, 0, None
        batch.checkpoint = self._traces.checkpoint(self._added)
        self._sink.put(batch)
