"""The loop of one pipeline process: read committed records, decode, group, close, hand on."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from controlplane.telemetry.ingest.otlp.decode import export_request
from controlplane.telemetry.ingest.otlp.decode.columnar import Spans
from controlplane.telemetry.ingest.otlp.rejoin import LostTraces
from controlplane.telemetry.ingest.spool.frame import Kind, Position, Record
from controlplane.telemetry.ingest.spool.reader import SpoolReader
from controlplane.telemetry.ledger.loads import loads
from controlplane.telemetry.metrics import batch as metrics
from controlplane.telemetry.store.write.keys import key_of

from .assembly import oldest_ns
from .batch import Batch, rows_of, version_of, withdrawal_of
from .closed_traces import ClosedTraces
from .fleet_names import FleetNames, named_load
from .sink import Sink
from .traces import Limits, OpenTrace, Traces

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch is handed on when it is this old or this large, whichever comes first."""

    age_s: float = 0.75
    spans: int = 40_000
    bytes: int = 16 * 2**20


class Worker:
    """Works off one shard: the traces whose id's last byte is `shard` modulo `shards`. `frontier()` is how far the spool is committed."""

    def __init__(
        self,
        reader: SpoolReader,
        sink: Sink,
        recent: ClosedTraces,
        frontier: Callable[[], Position],
        *,
        names: Callable[[], FleetNames] = FleetNames,
        shard: int = 0,
        shards: int = 1,
        limits: Limits | None = None,
        batches: BatchLimits | None = None,
        retention_days: int = 30,
        refused: Callable[[Sequence[object], str], None] = lambda items, reason: None,
    ) -> None:
        """`retention_days` must be the same as in the receiver. `refused` gets items that cannot be read or closed, and why."""
        self._reader, self._sink, self._frontier = reader, sink, frontier
        self._shard, self._shards = shard, shards
        self._batches = batches or BatchLimits()
        self._retention_ns, self._refused = retention_days * 86_400 * 10**9, refused
        self._traces = Traces(limits or Limits())
        self._recent = recent
        self._lost_traces = LostTraces()
        self._names = names
        self._added = reader.position  # everything before it is in `_traces` or done with
        self._batch = Batch(checkpoint=reader.position)
        self._spans = self._bytes = 0  # of the batch, on the wire
        self._since_s: float | None = None  # when the batch got its first content

    def step(self) -> float:
        """Work off some records. Returns how long to wait then, s, unless the frontier moves before."""
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
        """A record that cannot be read is set aside: the receiver has checked it, so another version wrote it, or this code has a fault."""
        if self._since_s is None:
            self._since_s = time.monotonic()
        try:
            if record.kind == Kind.SAMPLES:
                self._add_samples(record)
            else:
                self._add_spans(record)
        except Exception as error:
            log.exception("pipeline.record_refused", position=record.start, kept_in="refused.jsonl")
            if not self._shard or record.kind != Kind.SAMPLES:
                self._refused([record._asdict()], f"{type(error).__name__}: {error}")

    def _add_spans(self, record: Record) -> None:
        within = export_request.bounds(record.received_ns, self._retention_ns)
        for spans in export_request.read(record.payload, self._shard, self._shards, within):
            self._rejoin(spans, record.received_ns)
            self._traces.add(spans, record.start, time.monotonic(), record.received_ns)
            self._batch.oldest_ns = self._batch.oldest_ns or record.received_ns
            self._batch.spans.append(spans)
            self._spans += len(spans)
            self._bytes += spans.size
            if self._full:
                self._added = record.start  # the rest of this record follows
                self._hand_on()

    def _rejoin(self, spans: Spans, received_ns: int) -> None:
        """Move the spans of lost traces into their callers' traces, and remember new callers for later spans."""
        lost = self._lost_traces.learn(spans.named_callers())
        spans.move(self._lost_traces)
        if lost:
            trace_ids = list(lost)
            self._traces.forget([*lost, *(caller.trace_id for caller in lost.values())])
            closed = self._recent.may_know(trace_ids, [received_ns] * len(trace_ids))
            self._batch.callers |= lost
            self._batch.amend += [trace_id for trace_id, already in zip(trace_ids, closed, strict=True) if already]
            self._shares(trace_ids, received_ns)

    def _shares(self, trace_ids: list[bytes], since_ns: int) -> None:
        """Note that this pipeline has a share of these traces, and that another pipeline may have one since `since_ns`."""
        self._batch.closed += trace_ids
        self._batch.since_ns = min(self._batch.since_ns, since_ns)
        self._recent.add(trace_ids, time.time_ns())

    def _add_samples(self, record: Record) -> None:
        """The first shard stores metrics; the others only move their checkpoint."""
        if self._shard:
            return
        self._batch.oldest_ns = self._batch.oldest_ns or record.received_ns
        self._batch.samples.append(metrics.decode(record.payload))
        self._bytes += len(record.payload)
        if self._full:
            self._added = record.end
            self._hand_on()

    def _close(self, due: list[tuple[bytes, OpenTrace]]) -> None:
        batch, trace_ids = self._batch, [trace_id for trace_id, _ in due]
        names, too_old_ns = self._names(), oldest_ns(time.time_ns())
        now_s = time.monotonic()
        known = self._recent.may_know(trace_ids, [trace.earliest_ns for _, trace in due])
        for (trace_id, trace), may_be_known in zip(due, known, strict=True):
            again = trace.large or (trace.requests is None and (may_be_known or trace.received_ns < too_old_ns))
            if again:
                batch.amend.append(trace_id)
            try:
                spans = trace.spans()
                rows = [] if again else rows_of(spans, names, self._refused) or []
            except Exception as error:
                log.exception("pipeline.trace_refused", trace_id=trace_id.hex(), kept_in="refused.jsonl")
                self._refused([{"trace_id": trace_id.hex(), "spans": trace.count}], f"{type(error).__name__}: {error}")
                continue
            if not rows:
                batch.loads += [named_load(load, names) for load in loads(spans)]
            version = version_of(spans)
            batch.rows += [(row, version) for row in rows]
            if not again:
                requests = frozenset(map(key_of, rows))
                if trace.requests:
                    withdrawal = withdrawal_of(spans)
                    batch.withdrawn += [(key, withdrawal) for key in trace.requests - requests]
                self._traces.keep(trace_id, trace, requests, now_s)
        for spans_of_body in {id(spans): spans for _, trace in due for spans, _ in trace.parts}.values():
            spans_of_body.release()
        self._shares(trace_ids, min(min(trace.earliest_ns, trace.received_ns) for _, trace in due))

    def _hand_on(self) -> None:
        """Give the batch to the sink. Blocks while the store does not keep up."""
        batch, self._batch, self._spans, self._bytes, self._since_s = self._batch, Batch(), 0, 0, None
        batch.checkpoint = self._traces.checkpoint(self._added)
        self._sink.put(batch)
