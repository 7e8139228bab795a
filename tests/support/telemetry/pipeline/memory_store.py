"""A store in memory for the pipeline's tests."""

import threading

import pyarrow as pa

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ingest.otlp.decode.columnar import Listed
from controlplane.telemetry.ingest.pipeline.batch import Batch
from controlplane.telemetry.ingest.pipeline.sink import Sink
from controlplane.telemetry.ingest.pipeline.status import Status
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.store import StoreError
from controlplane.telemetry.store.write.arrow_columns import table_spans


class MemoryStore:
    """Keeps spans. It raises the errors in `failures` first, and refuses a span named "poison"."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.names: list[str] = []

    def prepare(self) -> None: ...

    def insert_span_columns(self, columns: pa.Table) -> None:
        spans = table_spans(columns)
        if self.failures:
            raise self.failures.pop(0)
        if any(span.name == "poison" for span in spans):
            raise StoreError("cannot be parsed", code=27)
        self.names += [span.name for span in spans]

    def shared(self, process: int, batch: int, age_s: int) -> dict[int, int]:
        return {}

    def _nothing(self, *_: object) -> None: ...

    insert_requests = insert_samples = insert_loads = insert_shares = insert_lost_traces = _nothing


class Outcome:
    """Runs batches through a sink until all are stored."""

    def __init__(self, store: MemoryStore, *batches: list[str]) -> None:
        self.checkpoints: list[int] = []
        self.refused: list[object] = []
        self.away: list[str] = []
        ended = threading.Event()

        def stored(batch: Batch, status: Status) -> None:
            self.checkpoints.append(batch.checkpoint.offset)
            if len(self.checkpoints) == len(batches):
                ended.set()

        sink = Sink(store, 1, stored, lambda items, why: self.refused.extend(items), self.away.append)  # type: ignore[arg-type]
        sink.start()
        for number, names in enumerate(batches):
            sink.put(Batch(spans=[Listed([(named(name), 9)]) for name in names], checkpoint=Position(1, number)))
        assert ended.wait(120)
        sink.stop()
        assert not sink.alive


def named(name: str) -> Span:
    return Span(b"t" * 16, b"s" * 8, b"", name, 1, 1, 2, 0, "", "", {})
