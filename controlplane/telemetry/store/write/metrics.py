"""The columns of metric samples, their series, exemplars and scrapes."""

import pyarrow as pa

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
