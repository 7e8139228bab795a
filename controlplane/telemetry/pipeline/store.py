"""What the pipeline asks of a store. `controlplane.telemetry.store.Store` answers it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.metrics.batch import Batch as Samples
from controlplane.telemetry.metrics.columns import sample_tables
from controlplane.telemetry.spans import Span
from controlplane.telemetry.store import Store, migrate
from controlplane.telemetry.store.columns import REQUEST_SCHEMA, request_table

from .columns import span_columns


class TraceStore(Protocol):
    """Every method may raise StoreUnavailable (the same call works later) or StoreError (this data is refused)."""

    def prepare(self) -> None:
        """Bring the tables to this version's shape."""

    def insert_spans(self, spans: Sequence[Span]) -> None: ...

    def insert_requests(self, rows: Sequence[LedgerRow], versions: Sequence[int]) -> None: ...

    def insert_samples(self, batches: Sequence[Samples]) -> None: ...

    def spans_of(self, trace_ids: Sequence[bytes]) -> dict[bytes, list[Span]]: ...

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[tuple[bytes, bytes]]: ...

    def withdraw_requests(self, keys: Iterable[tuple[bytes, bytes]]) -> None: ...


class StoreAdapter:
    """The pipeline's view of the real store."""

    def __init__(self, store: Store, dsn: str, retention_days: int) -> None:
        self._store, self._dsn, self._retention_days = store, dsn, retention_days

    def prepare(self) -> None:
        migrate(self._dsn, self._retention_days)

    def insert_spans(self, spans: Sequence[Span]) -> None:
        self._store.insert_span_columns(span_columns(spans))

    def insert_requests(self, rows: Sequence[LedgerRow], versions: Sequence[int]) -> None:
        table = request_table(rows, 0)
        column = REQUEST_SCHEMA.get_field_index("version")
        self._store.insert_request_columns(
            table.set_column(column, REQUEST_SCHEMA.field(column), pa.array(versions, pa.uint64()))
        )

    def insert_samples(self, batches: Sequence[Samples]) -> None:
        self._store.insert_metric_columns(**sample_tables(batches))

    def spans_of(self, trace_ids: Sequence[bytes]) -> dict[bytes, list[Span]]:
        found = self._store.spans_of([trace_id.hex() for trace_id in trace_ids])
        return {bytes.fromhex(trace_id): spans for trace_id, spans in found.items()}

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[tuple[bytes, bytes]]:
        return self._store.request_keys(trace_ids)

    def withdraw_requests(self, keys: Iterable[tuple[bytes, bytes]]) -> None:
        self._store.withdraw_requests(keys)
