"""The interface through which the pipeline uses the store, and its implementation."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from controlplane.telemetry.core.spans import Caller, Span
from controlplane.telemetry.ledger.loads import Load
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.metrics.batch import Batch as Samples
from controlplane.telemetry.metrics.sample_columns import sample_tables
from controlplane.telemetry.store import migrate
from controlplane.telemetry.store.client import Connection
from controlplane.telemetry.store.maintenance.migrate import ROLLUP_DAYS
from controlplane.telemetry.store.read.requests import RequestReader
from controlplane.telemetry.store.write.keys import RequestKey
from controlplane.telemetry.store.write.writer import Writer


class TraceStore(Protocol):
    """Every method may raise StoreUnavailableError (retryable) or StoreError (permanent: this data is refused)."""

    def prepare(self) -> None:
        """Migrate the tables to this version's schema."""

    def insert_span_columns(self, columns: pa.Table) -> None: ...

    def insert_requests(self, rows: Sequence[LedgerRow], version: Sequence[int]) -> None: ...

    def insert_samples(self, batches: Sequence[Samples]) -> None: ...

    def insert_loads(self, loads: Sequence[Load]) -> None: ...

    def known_spans(self, trace_ids: Sequence[bytes], most: int | None = None) -> list[list[Span]]:
        """All spans of each of these traces, or the `most` earliest ones."""

    def span_counts(self, trace_ids: Sequence[bytes]) -> dict[bytes, int]:
        """How many spans of each trace the store has."""

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]: ...

    def withdraw_requests(self, keys: Sequence[RequestKey], version: Sequence[int]) -> None: ...

    def insert_shares(self, process: int, batch: int, shares: Sequence[int]) -> None: ...

    def shared(self, process: int, batch: int, age_s: int) -> dict[int, int]: ...

    def insert_lost_traces(self, callers: Mapping[bytes, Caller]) -> None: ...

    def lost_traces(self, trace_ids: Sequence[bytes]) -> dict[bytes, Caller]: ...


class StoreAdapter(Writer):
    """The store's writer, with what pipelines read, by raw trace ids."""

    def __init__(self, dsn: str, retention_days: int, rollup_retention_days: int = ROLLUP_DAYS) -> None:
        connection = Connection(dsn)
        super().__init__(connection)
        self._requests = RequestReader(connection)
        self._address = dsn
        self._retention_days, self._rollup_retention_days = retention_days, rollup_retention_days
        self.close = connection.close
        self.span_counts = self._requests.span_counts

    def prepare(self) -> None:
        migrate(self._address, self._retention_days, self._rollup_retention_days)

    def insert_samples(self, batches: Sequence[Samples]) -> None:
        self.insert_metric_columns(**sample_tables(batches))

    def known_spans(self, trace_ids: Sequence[bytes], most: int | None = None) -> list[list[Span]]:
        return list(self._requests.spans_of([trace_id.hex() for trace_id in trace_ids], most).values())
