"""Writes batches to the store in order, and retries while the store is away. The worker then waits too."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import structlog

from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.ingest.otlp.decode.export_request import Spans
from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.store import StoreError, StoreUnavailableError
from controlplane.telemetry.store.write.arrow_columns import SPAN_SCHEMA, span_table, table_spans
from controlplane.telemetry.store.write.keys import RequestKey

from .assembly import MAX_TRACES, Closing, Shared, groups, identity
from .batch import Batch, contents, parts
from .fleet_names import FleetNames
from .status import Status, added
from .store_port import StoreAdapter

log = structlog.get_logger(__name__)

_MAX_WAIT_S = 5.0
ENVIRONMENT = frozenset({8, 10, 16, 47, 60, 62, 81, 115, 164, 192, 193, 194, 497, 516})
"""ClickHouse codes for a missing table, column or database, a wrong user, password or grant: errors that are not caused by the data."""

T = TypeVar("T")


class _StoppedError(Exception):
    """The sink was stopped before the store answered."""


class Sink:
    """`put` blocks while two batches wait. `stored(batch, status)` is called from the writing thread after each one."""

    def __init__(
        self,
        store: StoreAdapter,
        process: int,
        stored: Callable[[Batch, Status], None],
        refused: Callable[[Sequence[object], str], None],
        away: Callable[[str], None] = lambda reason: None,
        names: Callable[[], FleetNames] = FleetNames,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`process` identifies this run of the pipeline (see `assembly.identity`). `refused` gets items that the store refuses, and why.
        `away` gets the reason why the store takes nothing now, or an empty text. `names` are the fleet's (see `fleet_names`). `waiting` is
        called regularly while `put` waits."""
        self._names = names
        self._store, self._process = store, process
        self._home = identity()  # of the shares of what it takes home
        self._stored, self._refused, self._report_away, self._waiting = stored, refused, away, waiting
        self._batches: queue.Queue[Batch] = queue.Queue(maxsize=2)
        self._stop = threading.Event()
        self._shares_traces = False  # whether another pipeline had a share of a trace at the last query
        self._away: str | None = None  # None until the store has been tried
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False once its thread has ended, which is a fault unless `stop` was called."""
        return self._thread.is_alive()

    def put(self, batch: Batch) -> None:
        """Queue the batch. Returns without it where the sink is stopped."""
        while not self._stop.is_set() and self.alive:
            try:
                self._batches.put(batch, timeout=0.2)
            except queue.Full:
                self._waiting()
                continue
            return

    def stop(self) -> None:
        """Finish the running statement. Batches that wait are repeated after the next start."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with suppress(_StoppedError):
            self._retry(self._store.prepare)
            while not self._stop.is_set():
                try:
                    batch = self._batches.get(timeout=0.2)
                except queue.Empty:
                    continue
                self._stored(batch, self._written(batch))

    def _written(self, batch: Batch) -> Status:
        """Write a batch. Where that fails unexpectedly, write its parts one by one, and set aside those that fail."""
        try:
            return self._write(batch)
        except _StoppedError:
            raise
        except Exception:
            log.exception("pipeline.batch_failed", remedy="its parts are tried one by one")
        total = Status()
        for part in parts(batch):
            try:
                total = added(total, self._write(part))
            except _StoppedError:
                raise
            except Exception as error:
                log.exception("pipeline.part_refused", kept_in="refused.jsonl")
                self._refused(contents(part), f"{type(error).__name__}: {error}")
        return msgspec.structs.replace(total, checkpoint=batch.checkpoint, lag_s=_lag_s(batch))

    def _write(self, batch: Batch) -> Status:
        spans = self._columns(batch.spans)
        self._insert(self._store.insert_span_columns, spans)
        self._insert(self._store.insert_samples, batch.samples)
        self._insert(self._store.insert_loads, batch.loads)
        written = Counter[str]()
        if batch.closed:
            self._close(batch, written)
        status = Status(
            spans=len(spans),
            samples=sum(map(len, batch.samples)),
            lag_s=_lag_s(batch),
            checkpoint=batch.checkpoint,
        )
        return msgspec.structs.replace(status, **written)

    def _close(self, batch: Batch, written: Counter[str], rejoined: bool = False) -> None:
        """Write the rows of the batch's traces in the order that `assembly` explains.

        With `rejoined` they are traces that lost ones were taken into: none of them is lost itself, and their shares count as another
        pipeline's, so that this one reads the spans back when it closes such a trace later.
        """
        shared, number = Shared(batch), time.time_ns()
        process = self._home if rejoined else self._process
        self._retry(lambda: self._store.insert_lost_traces(batch.callers))
        self._retry(lambda: self._store.insert_shares(process, number, shared.shares))
        again = self._shared(shared, process, number) if self._shares_traces else set()  # avoids rows of partial traces
        again |= set(batch.amend)
        names = {trace_id.hex() for trace_id in again}
        self._insert_rows([pair for pair in batch.rows if pair[0].trace_id not in names], written)
        self._withdraw(batch.withdrawn, written)
        while True:
            trace_ids = sorted(again)
            counts: dict[bytes, int] = {}
            for at in range(0, len(trace_ids), MAX_TRACES):
                counts |= self._retry(partial(self._store.span_counts, trace_ids[at : at + MAX_TRACES]))
            for some in groups(trace_ids, counts):
                self._close_again(some, counts, written, rejoined)
            again = self._shared(shared, process, number)
            if not again:
                return

    def _shared(self, shared: Shared, process: int, number: int) -> set[bytes]:
        """Traces of the batch of which other pipelines have new shares."""
        counts = self._retry(lambda: self._store.shared(process, number, shared.age_s(time.time_ns())))
        self._shares_traces = bool(counts)
        return shared.new(counts)

    def _close_again(
        self, trace_ids: list[bytes], counts: dict[bytes, int], written: Counter[str], rejoined: bool
    ) -> None:
        """Close these traces with all their spans in the store, and withdraw rows that are no requests."""
        oversized = sum(counts.get(trace_id, 0) > ROW_SPANS for trace_id in trace_ids)

        def closing() -> Closing:
            spans = self._store.known_spans(trace_ids, ROW_SPANS if oversized else None)
            callers = {} if rejoined else self._store.lost_traces(trace_ids)
            return Closing(spans, self._store.request_keys(trace_ids), callers, self._names(), counts, self._refused)

        closed = self._retry(closing)
        if closed.moved:
            self._take_home(closed.moved, written)
        self._insert_rows(closed.rows, written)
        self._withdraw(closed.withdrawn, written)
        written["oversized"] += oversized

    def _take_home(self, spans: list[Span], written: Counter[str]) -> None:
        """Store the spans of lost traces in their callers' traces, and close those."""
        self._insert(self._store.insert_span_columns, span_table(spans))
        right = list({span.trace_id: None for span in spans})
        since_ns = min(span.start_ns for span in spans)
        self._close(Batch(closed=right, amend=right, since_ns=since_ns), written, rejoined=True)

    def _withdraw(self, withdrawn: list[tuple[RequestKey, int]], written: Counter[str]) -> None:
        if withdrawn:
            keys, versions = zip(*withdrawn, strict=True)
            self._retry(lambda: self._store.withdraw_requests(keys, versions))
        written["withdrawn"] += len(withdrawn)

    def _insert_rows(self, rows: list[tuple[LedgerRow, int]], written: Counter[str]) -> None:
        def insert(some: list[tuple[LedgerRow, int]]) -> None:
            self._store.insert_requests([row for row, _ in some], [version for _, version in some])

        written["requests"] += len(rows)
        written["newest_ns"] = max(written["newest_ns"], max((row.end_ns for row, _ in rows), default=0))
        self._insert(insert, rows)

    def _columns(self, batch: list[Spans]) -> pa.Table:
        """All spans as one table. A span that does not fit its column is set aside."""
        tables = [SPAN_SCHEMA.empty_table()]
        for spans in batch:
            try:
                tables.append(spans.table())
            except Exception:
                log.exception("pipeline.columns_failed", spans=len(spans), remedy="each is tried by itself")
                for span in [span for part in spans.parts() for span in spans.of(part)]:
                    try:
                        tables.append(span_table([span]))
                    except Exception as error:  # noqa: BLE001  (any error is this span's)
                        self._refused([span], str(error))
        return pa.concat_tables(tables).combine_chunks()

    def _insert(self, insert: Callable[[Any], None], items: list[T] | pa.Table) -> None:
        """Insert all. Items that the store refuses on their own are set aside."""
        if not len(items):
            return
        try:
            self._retry(lambda: insert(items))
        except _StoppedError:
            raise
        except Exception as error:
            if len(items) == 1:
                log.exception("pipeline.item_refused", kind=type(items[0]).__name__, kept_in="refused.jsonl")
                self._refused(table_spans(items) if isinstance(items, pa.Table) else items, str(error))
                return
            half = len(items) // 2
            self._insert(insert, items[:half])
            self._insert(insert, items[half:])

    def _retry(self, call: Callable[[], T]) -> T:
        """What the store answers, as soon as it does. Raises errors that the data causes, and _StoppedError."""
        wait_s = 0.1
        while not self._stop.is_set():
            try:
                answer = call()
            except StoreUnavailableError as error:
                self._note_away(str(error))
                wait_s = min(_MAX_WAIT_S, max(error.retry_after_s, wait_s * 2))
            except StoreError as error:
                if error.code not in ENVIRONMENT:
                    raise
                self._note_away(str(error))
                wait_s = _MAX_WAIT_S
            else:
                self._note_away("")
                return answer
            self._stop.wait(wait_s)
        raise _StoppedError

    def _note_away(self, away: str) -> None:
        """Log and report once that the store went away or came back."""
        if away and self._away is None:
            log.info("store.awaited", reason=away)
        elif away and not self._away:
            log.error("store.lost", reason=away, remedy="spans wait in the spool until it answers")
        elif self._away and not away:
            log.info("store.returned")
        if bool(away) != bool(self._away) or self._away is None:
            self._report_away(away)
        self._away = away


def _lag_s(batch: Batch) -> float:
    return max(0.0, (time.time_ns() - batch.oldest_ns) / 1e9) if batch.oldest_ns else 0.0
