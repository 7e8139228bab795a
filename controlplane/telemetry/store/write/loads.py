"""Records models' loads into servers."""

from collections.abc import Sequence

import pyarrow as pa

from controlplane.telemetry.ledger.loads import Load

from ..client import Connection

_TEXTS = ("adapter", "service", "model", "pool", "replica")


class LoadStore(Connection):
    """Raises StoreUnavailableError or StoreError. Repeating a call is harmless."""

    def insert_loads(self, loads: Sequence[Load]) -> None:
        if loads:
            columns = {
                "trace_id": pa.array([load.trace_id for load in loads], pa.binary(16)),
                "span_id": pa.array([load.span_id for load in loads], pa.binary(8)),
                "start_ns": pa.array([load.start_ns for load in loads], pa.uint64()),
                "duration_ns": pa.array([max(0, load.end_ns - load.start_ns) for load in loads], pa.uint64()),
                **{name: pa.array([getattr(load, name) for load in loads], pa.string()) for name in _TEXTS},
            }
            self.insert_arrow("model_loads", pa.table(columns))
