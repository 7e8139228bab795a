"""Records where the spans of lost traces belong, for all pipelines and after a restart."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from controlplane.telemetry.ingest.otlp.rejoin import Home

from ..client import Connection


class HomeStore(Connection):
    """Each call raises StoreUnavailableError or StoreError. Repeating it is harmless."""

    def insert_homes(self, homes: Mapping[bytes, Home]) -> None:
        """Record the homes of these traces (16 raw bytes)."""
        if homes:
            columns = {
                "lost": pa.array(list(homes), pa.binary(16)),
                "trace_id": pa.array([home.trace_id for home in homes.values()], pa.binary(16)),
                "parent_id": pa.array([home.parent_id for home in homes.values()], pa.binary(8)),
            }
            self.insert_arrow("homes", pa.table(columns))

    def homes(self, trace_ids: Sequence[bytes]) -> dict[bytes, Home]:
        """The homes of those of these traces that are lost."""
        rows = self.rows(
            "SELECT lost, trace_id, parent_id FROM homes"
            " WHERE lost IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16)) ORDER BY noted_at",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {bytes(lost): Home(bytes(trace_id), bytes(parent_id)) for lost, trace_id, parent_id in rows}
