"""The store as the pipeline uses it."""

from collections.abc import Sequence

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.metrics.batch import Batch as Samples
from controlplane.telemetry.metrics.sample_columns import sample_tables
from controlplane.telemetry.store import migrate
from controlplane.telemetry.store.client import Connection
from controlplane.telemetry.store.maintenance.migrate import ROLLUP_DAYS
from controlplane.telemetry.store.read.requests import RequestReader
from controlplane.telemetry.store.write.writer import Writer


class StoreAdapter(Writer):
    """The store's writer, with what pipelines read, by raw trace ids.

    Every method may raise StoreUnavailableError (retryable) or StoreError (permanent: this data is refused).
    """

    def __init__(self, dsn: str, retention_days: int, rollup_retention_days: int = ROLLUP_DAYS) -> None:
        connection = Connection(dsn)
        super().__init__(connection)
        self._requests = RequestReader(connection)
        self._address = dsn
        self._retention_days, self._rollup_retention_days = retention_days, rollup_retention_days
        self.close = connection.close
        self.span_counts = self._requests.span_counts

    def prepare(self) -> None:
        """Migrate the tables to this version's schema."""
        migrate(self._address, self._retention_days, self._rollup_retention_days)

    def insert_samples(self, batches: Sequence[Samples]) -> None:
        self.insert_metric_columns(**sample_tables(batches))

    def known_spans(self, trace_ids: Sequence[bytes], most: int | None = None) -> list[list[Span]]:
        """All spans of each of these traces, or the `most` earliest ones."""
        return list(self._requests.spans_of([trace_id.hex() for trace_id in trace_ids], most).values())
