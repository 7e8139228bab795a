"""What the pipeline asks of a store. `controlplane.telemetry.store.Store` answers it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.metrics.batch import Batch as Samples
from controlplane.telemetry.metrics.columns import sample_tables
from controlplane.telemetry.spans import Span
from controlplane.telemetry.store import Store, migrate


class TraceStore(Protocol):
    """Every method may raise StoreUnavailable (the same call works later) or StoreError (this data is refused)."""

    def prepare(self) -> None:
        """Bring the tables to this version's shape."""

    def insert_span_columns(self, columns: pa.Table) -> None: ...

    def insert_requests(self, rows: Sequence[LedgerRow], version: Sequence[int]) -> None: ...

    def insert_samples(self, batches: Sequence[Samples]) -> None: ...

    def known_spans(self, trace_ids: Sequence[bytes]) -> list[list[Span]]:
        """All spans of each of these traces that is there."""

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[tuple[bytes, bytes]]: ...

    def withdraw_requests(self, keys: Iterable[tuple[bytes, bytes]]) -> None: ...


class StoreAdapter(Store):
    """The real one, with raw trace ids."""

    def __init__(self, dsn: str, retention_days: int) -> None:
        super().__init__(dsn)
        self._address, self._retention_days = dsn, retention_days

    def prepare(self) -> None:
        migrate(self._address, self._retention_days)

    def insert_samples(self, batches: Sequence[Samples]) -> None:
        self.insert_metric_columns(**sample_tables(batches))

    def known_spans(self, trace_ids: Sequence[bytes]) -> list[list[Span]]:
        return list(self.spans_of([trace_id.hex() for trace_id in trace_ids]).values())
