"""Pipelines that share a store in memory. A test says which of them goes on, from call to call of the store, and which is killed."""

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from controlplane.telemetry.core.spans import Caller, Span
from controlplane.telemetry.ingest.pipeline.assembly import identity
from controlplane.telemetry.ingest.pipeline.batch import Batch
from controlplane.telemetry.ingest.pipeline.closed_traces import ClosedTraces
from controlplane.telemetry.ingest.pipeline.sink import Sink
from controlplane.telemetry.ingest.pipeline.traces import Limits
from controlplane.telemetry.ingest.pipeline.worker import BatchLimits, Worker
from controlplane.telemetry.ingest.spool.frame import Kind, Position, Record
from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.store.write.arrow_columns import table_spans
from controlplane.telemetry.store.write.keys import RequestKey, key_of

NOW_NS = 1_790_000_000 * 10**9
IDLE = "waits for a batch"


class Clock:
    """The time of all pipelines, in place of the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return NOW_NS + int(self.now_s * 1e9)


class Tables:
    """What the store has: of a span the longer one, of a request the row of the highest version (None: withdrawn)."""

    def __init__(self) -> None:
        self.spans: dict[tuple[bytes, bytes], Span] = {}
        self.rows: dict[RequestKey, tuple[int, LedgerRow | None]] = {}
        self.shares: list[tuple[int, int, int]] = []  # process, batch, share
        self.callers: dict[bytes, Caller] = {}

    def requests(self) -> list[LedgerRow]:
        return [row for _, row in self.rows.values() if row is not None]


class _Killed(BaseException):
    """A pipeline ends here."""


class _Calls:
    """The store as the sink uses it. Before and after each change the pipeline waits for its turn."""

    def __init__(self, tables: Tables, pipeline: "Pipeline") -> None:
        self._tables, self._turn = tables, pipeline.wait_for_turn

    def insert_span_columns(self, columns: pa.Table) -> None:
        self._turn("before spans")
        for span in table_spans(columns):
            other = self._tables.spans.get((span.trace_id, span.span_id))
            if other is None or span.end_ns - span.start_ns > other.end_ns - other.start_ns:
                self._tables.spans[span.trace_id, span.span_id] = span
        self._turn("after spans")

    def insert_samples(self, batches: Sequence[object]) -> None: ...

    def insert_loads(self, loads: Sequence[object]) -> None: ...

    def insert_lost_traces(self, callers: Mapping[bytes, Caller]) -> None:
        self._turn("before callers")
        self._tables.callers |= callers

    def insert_shares(self, process: int, batch: int, shares: Sequence[int]) -> None:
        self._turn("before shares")
        self._tables.shares += [(process, batch, share) for share in shares]

    def shared(self, process: int, batch: int, age_s: int) -> dict[int, int]:
        self._turn("before a look at shares")
        own = {share for of, number, share in self._tables.shares if (of, number) == (process, batch)}
        return Counter(share for of, _, share in self._tables.shares if of != process and share in own)

    def insert_requests(self, rows: Sequence[LedgerRow], versions: Sequence[int]) -> None:
        self._write(zip(map(key_of, rows), versions, rows, strict=True))

    def withdraw_requests(self, keys: Sequence[RequestKey], versions: Sequence[int]) -> None:
        self._write((key, version, None) for key, version in zip(keys, versions, strict=True))

    def _write(self, rows: Iterable[tuple[RequestKey, int, LedgerRow | None]]) -> None:
        self._turn("before rows")
        for key, version, row in rows:
            if key not in self._tables.rows or version >= self._tables.rows[key][0]:
                self._tables.rows[key] = version, row
        self._turn("after rows")

    def span_counts(self, trace_ids: Sequence[bytes]) -> dict[bytes, int]:
        self._turn("before a count of spans")
        return Counter(trace_id for trace_id, _ in self._tables.spans if trace_id in trace_ids)

    def known_spans(self, trace_ids: Sequence[bytes], most: int | None = None) -> list[list[Span]]:
        self._turn("before a look at spans")
        traces: defaultdict[bytes, list[Span]] = defaultdict(list)
        for (trace_id, _), span in self._tables.spans.items():
            if trace_id in trace_ids:
                traces[trace_id].append(span)
        return [sorted(spans, key=lambda span: (span.start_ns, span.span_id)) for spans in traces.values()]

    def lost_traces(self, trace_ids: Sequence[bytes]) -> dict[bytes, Caller]:
        self._turn("before a look at callers")
        return {trace_id: caller for trace_id, caller in self._tables.callers.items() if trace_id in trace_ids}

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]:
        self._turn("before a look at rows")
        return {key for key, (_, row) in self._tables.rows.items() if row is not None and key.trace_id in trace_ids}


class Spool:
    """The bodies that one process acknowledged."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    @property
    def end(self) -> Position:
        return Position(1, len(self.records))

    def append(self, body: bytes, received_ns: int) -> None:
        at = len(self.records)
        self.records.append(Record(Kind.TRACES, received_ns, body, Position(1, at), Position(1, at + 1)))


class _Reader:
    def __init__(self, spool: Spool, position: Position) -> None:
        self._spool, self.position = spool, position

    def read(self, frontier: Position) -> list[Record]:
        """One record at a time."""
        found = self._spool.records[self.position.offset : frontier.offset][:1]
        self.position = found[-1].end if found else self.position
        return found


class Pipeline:
    """A shard of a process: its worker goes on in steps, its sink in a thread, from call to call. Close it."""

    def __init__(
        self, folder: Path, tables: Tables, spool: Spool, *, shard: int, shards: int, limits: Limits, clock: Clock
    ) -> None:
        folder.mkdir(parents=True)
        self._folder, self._tables, self._spool, self._clock = folder, tables, spool, clock
        self._shard, self._shards, self._limits = shard, shards, limits
        self._checkpoint = Position(1, 0)
        self.refused: list[object] = []
        self._begin()

    def _begin(self) -> None:
        self._killed, self._batches, self.at = False, list[Batch](), ""
        self._turn, self._waits = threading.Event(), threading.Event()
        since_ns = self._clock.time_ns() if self._checkpoint.offset else 0
        self._recent = ClosedTraces(self._folder, "closed", since_ns, size=4096)
        self._reader: Any = _Reader(self._spool, self._checkpoint)
        calls: Any = _Calls(self._tables, self)
        self._sink = Sink(calls, identity(), lambda batch, status: None, self._refuse)
        queue: Any = self
        self._worker = Worker(
            self._reader, queue, self._recent, lambda: self._spool.end, shard=self._shard, shards=self._shards,
            limits=self._limits, batches=BatchLimits(), retention_days=3650, refused=self._refuse,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._write_batches, daemon=True)
        self._thread.start()
        self._waits.wait()

    def _refuse(self, items: Sequence[object], reason: str) -> None:
        self.refused += [(item, reason) for item in items]

    def put(self, batch: Batch) -> None:
        """As the sink takes it."""
        self._batches.append(batch)

    def _write_batches(self) -> None:
        try:
            while True:
                self.wait_for_turn(IDLE)
                if self._batches:
                    batch = self._batches.pop(0)
                    self._sink._write(batch)
                    self._checkpoint = batch.checkpoint
        except _Killed:
            pass
        except Exception as error:  # noqa: BLE001  (it would be lost in this thread)
            self._refuse([error], "it failed")
        self.at = "ended"
        self._waits.set()

    def wait_for_turn(self, at: str) -> None:
        self.at = at
        self._waits.set()
        self._turn.wait()
        self._turn.clear()
        if self._killed:
            raise _Killed

    def work(self) -> None:
        """One step of the worker."""
        self._worker.step()

    def advance(self) -> None:
        """Let the sink go on to its next call of the store."""
        self._waits.clear()
        self._turn.set()
        self._waits.wait()

    @property
    def writes(self) -> bool:
        """Whether it has something to write."""
        return bool(self._batches) or self.at not in (IDLE, "ended")

    @property
    def is_done(self) -> bool:
        """Whether all of the spool is in the store, as the checkpoint says."""
        return not self.writes and self._checkpoint == self._spool.end

    def close(self) -> None:
        self._killed = True
        self.advance()
        self._thread.join()
        self._recent.close()

    def kill(self) -> None:
        """End it where it is, and start it again from its checkpoint."""
        self.close()
        self._begin()


def random_limits(source: random.Random) -> Limits:
    """With traces that are closed at once, whole or in parts, and kept for long, for a moment or not at all."""
    return Limits(
        quiet_s=source.choice((0.0, 1.0)), root_s=source.choice((0.0, 3.0)), open_s=source.choice((2.0, 10.0)),
        kept_s=source.choice((0.0, 5.0, 1_000.0)),
    )  # fmt: skip
