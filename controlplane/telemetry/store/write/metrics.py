"""Inserts metric samples, their series, exemplars and scrapes."""

from typing import Any

import pyarrow as pa

from ..client import Connection

SAMPLE_SCHEMA = pa.schema(
    [
        pa.field("series", pa.uint64()),
        pa.field("time_ns", pa.int64()),
        pa.field("start_ns", pa.int64()),
        pa.field("value", pa.float64()),
    ]
)
SERIES_SCHEMA = pa.schema(
    [
        pa.field("metric", pa.string()),
        pa.field("series", pa.uint64()),
        pa.field("kind", pa.string()),
        pa.field("unit", pa.string()),
        pa.field("delta", pa.bool_()),
        pa.field("labels", pa.map_(pa.string(), pa.string())),
        pa.field("seen_ns", pa.int64()),
    ]
)
SCRAPE_SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64()),
        pa.field("job", pa.string()),
        pa.field("instance", pa.string()),
        pa.field("url", pa.string()),
        pa.field("up", pa.bool_()),
        pa.field("duration_ns", pa.uint64()),
        pa.field("samples", pa.uint32()),
        pa.field("error", pa.string()),
    ]
)

NO_SPAN = bytes(8)

EXEMPLAR_SCHEMA = pa.schema(
    [
        pa.field("series", pa.uint64()),
        pa.field("time_ns", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("trace_id", pa.binary(16)),
        pa.field("span_id", pa.binary(8)),
    ]
)
"""Ids are raw bytes. `NO_SPAN` stands for an unknown span."""


class MetricWriter(Connection):
    """Inserts tables of the schemas above. Repeating a batch is harmless. Raises StoreUnavailableError or StoreError."""

    def insert_metric_columns(
        self,
        *,
        series: pa.Table | None = None,
        samples: pa.Table | None = None,
        scrapes: pa.Table | None = None,
        exemplars: pa.Table | None = None,
    ) -> None:
        """Inserts series first, so that a stored sample always has its labels."""
        tables: dict[str, Any] = {"series": series, "samples": samples, "scrapes": scrapes, "exemplars": exemplars}
        for name, table in tables.items():
            if table is not None and len(table):
                self.insert_arrow(name, table)
