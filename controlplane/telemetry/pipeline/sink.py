"""Writes batches in order, and never gives up: while the store is away they wait, and what feeds them waits too."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import structlog

from controlplane.telemetry.ledger import LedgerRow
from controlplane.telemetry.otlp.decode import Spans
from controlplane.telemetry.spans import Span
from controlplane.telemetry.store import StoreError, StoreUnavailable
from controlplane.telemetry.store.columns import SPAN_SCHEMA, span_table, table_spans

from .batch import Batch, Key, key_of, rows_of, version_of
from .status import Status
from .store import TraceStore

log = structlog.get_logger(__name__)

_LONGEST_WAIT_S = 5.0
_TRACES_AT_ONCE = 1_000
ENVIRONMENT = frozenset({8, 10, 16, 47, 60, 62, 81, 115, 164, 192, 193, 194, 497, 516})
"""ClickHouse codes for a missing table, column or database, a wrong user, password or grant: nothing is wrong with the data."""

T = TypeVar("T")


class _Known(NamedTuple):
    spans: list[list[Span]]
    requests: set[Key]


class Sink:
    """`put` blocks while two batches wait. `stored(batch, status)` is called from the writing thread after each one."""

    def __init__(
        self,
        store: TraceStore,
        stored: Callable[[Batch, Status], None],
        refused: Callable[[Sequence[object], str], None],
        away: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`refused` gets what the store will never take, and why, to keep it elsewhere; `away` why it takes nothing now."""
        self._store, self._stored, self._refused, self._tell_away = store, stored, refused, away
        self._batches: queue.Queue[Batch] = queue.Queue(maxsize=2)
        self._stop = threading.Event()
        self._away: str | None = None  # None until the store has been tried
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False once its thread has ended, which without `stop` is a fault."""
        return self._thread.is_alive()

    def put(self, batch: Batch) -> None:
        """Returns without having taken it once the sink is stopped."""
        while not self._stop.is_set() and self.alive:
            try:
                self._batches.put(batch, timeout=0.2)
            except queue.Full:
                continue
            return

    def stop(self) -> None:
        """Finish the statement that runs; batches that wait are left to the next start."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._patiently(self._store.prepare)
        while not self._stop.is_set():
            try:
                batch = self._batches.get(timeout=0.2)
            except queue.Empty:
                continue
            if status := self._write(batch):
                self._stored(batch, status)

    def _write(self, batch: Batch) -> Status | None:
        """None where the sink was stopped before all of it was in the store."""
        spans = self._columns(batch.spans)
        if not self._insert(self._store.insert_span_columns, spans):
            return None
        if not self._insert(self._store.insert_samples, batch.samples):
            return None
        rows = list(zip(batch.rows, batch.versions, strict=True))
        withdrawn: set[Key] = set()
        for at in range(0, len(batch.amend), _TRACES_AT_ONCE):
            known = self._known(batch.amend[at : at + _TRACES_AT_ONCE])
            if known is None:
                return None
            amended = [(row, version_of(spans)) for spans in known.spans for row in rows_of(spans)]
            rows += amended
            withdrawn |= known.requests - {key_of(row) for row, _ in amended}
        if not self._insert(self._insert_rows, rows):
            return None
        if withdrawn and not self._patiently(lambda: self._store.withdraw_requests(withdrawn)):
            return None
        return Status(
            spans=len(spans),
            requests=len(rows),
            amended=len(batch.amend),
            withdrawn=len(withdrawn),
            samples=sum(map(len, batch.samples)),
            exemplars=sum(len(one.exemplars) for one in batch.samples),
            newest_ns=max((row.end_ns for row, _ in rows), default=0),
            lag_s=max(0.0, (time.time_ns() - batch.oldest_ns) / 1e9) if batch.oldest_ns else 0.0,
            checkpoint=batch.checkpoint,
        )

    def _insert_rows(self, rows: list[tuple[LedgerRow, int]]) -> None:
        self._store.insert_requests([row for row, _ in rows], [version for _, version in rows])

    def _known(self, trace_ids: list[bytes]) -> "_Known | None":
        """What the store has of these traces: all their spans by now, and the rows made of fewer of them before."""
        found: list[_Known] = []

        def ask() -> None:
            found.append(_Known(self._store.known_spans(trace_ids), self._store.request_keys(trace_ids)))

        return found[0] if self._patiently(ask) else None

    def _columns(self, batch: list[Spans]) -> pa.Table:
        """All spans in one piece; one that does not fit its column is set aside."""
        tables = [SPAN_SCHEMA.empty_table()]
        for spans in batch:
            try:
                tables.append(spans.table())
            except Exception:
                log.exception("pipeline.columns_not_made", spans=len(spans), remedy="each is tried by itself")
                for span in [span for part in spans.parts() for span in spans.of(part)]:
                    try:
                        tables.append(span_table([span]))
                    except Exception as error:  # noqa: BLE001  (whatever it is, it is this span's)
                        self._refused([span], str(error))
        return pa.concat_tables(tables).combine_chunks()

    def _insert(self, insert: Callable[[Any], None], items: list[T] | pa.Table) -> bool:
        """Insert all; what the store refuses for itself alone is set aside. False where the sink was stopped first."""
        if not len(items):
            return True
        try:
            return self._patiently(lambda: insert(items))
        except Exception as error:
            if len(items) == 1:
                log.exception("pipeline.refused", kind=type(items[0]).__name__, kept_in="refused.jsonl")
                self._refused(table_spans(items) if isinstance(items, pa.Table) else items, str(error))
                return True
        half = len(items) // 2
        return self._insert(insert, items[:half]) and self._insert(insert, items[half:])

    def _patiently(self, call: Callable[[], None]) -> bool:
        """Call until the store answers; False where the sink was stopped first. Raises what is wrong with the data."""
        wait_s = 0.1
        while not self._stop.is_set():
            try:
                call()
            except StoreUnavailable as error:
                self._say(str(error))
                wait_s = min(_LONGEST_WAIT_S, max(error.retry_after_s, wait_s * 2))
            except StoreError as error:
                if error.code not in ENVIRONMENT:
                    raise
                self._say(str(error))
                wait_s = _LONGEST_WAIT_S
            else:
                self._say("")
                return True
            self._stop.wait(wait_s)
        return False

    def _say(self, away: str) -> None:
        """Say that the store went away, or came back: once each."""
        if away and self._away is None:
            log.info("store.awaited", reason=away)
        elif away and not self._away:
            log.error("store.away", reason=away, remedy="spans wait in the spool until it answers")
        elif self._away and not away:
            log.info("store.back")
        if bool(away) != bool(self._away) or self._away is None:
            self._tell_away(away)
        self._away = away
