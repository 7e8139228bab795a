"""Records where the spans of lost traces belong, for all pipelines and after a restart."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from controlplane.telemetry.ingest.otlp.rejoin import Caller

from ..client import Connection


class LostTraceStore(Connection):
    """Each call raises StoreUnavailableError or StoreError. Repeating it is harmless."""

    def insert_lost_traces(self, callers: Mapping[bytes, Caller]) -> None:
        """Record the callers of these traces (16 raw bytes)."""
        if callers:
            columns = {
                "lost_trace_id": pa.array(list(callers), pa.binary(16)),
                "trace_id": pa.array([caller.trace_id for caller in callers.values()], pa.binary(16)),
                "parent_id": pa.array([caller.parent_id for caller in callers.values()], pa.binary(8)),
            }
            self.insert_arrow("lost_traces", pa.table(columns))

    def lost_traces(self, trace_ids: Sequence[bytes]) -> dict[bytes, Caller]:
        """The callers of those of these traces that are lost."""
        rows = self.rows(
            "SELECT lost_trace_id, trace_id, parent_id FROM lost_traces"
            " WHERE lost_trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16)) ORDER BY noted_at",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {bytes(lost): Caller(bytes(trace_id), bytes(parent_id)) for lost, trace_id, parent_id in rows}
