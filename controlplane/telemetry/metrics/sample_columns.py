"""Converts batches of samples to the store's columns."""

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .batch import Batch, Scrape
from .core.series import Definition

SAMPLE_SCHEMA = pa.schema(
    [("series", pa.uint64()), ("time_ns", pa.int64()), ("start_ns", pa.int64()), ("value", pa.float64())]
)
SERIES_SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("series", pa.uint64()),
        ("kind", pa.string()),
        ("unit", pa.string()),
        ("delta", pa.bool_()),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("seen_ns", pa.int64()),
    ]
)
_SCRAPES = pa.schema(
    [
        ("time_ns", pa.int64()),
        *((name, pa.string()) for name in ("job", "instance", "url")),
        ("up", pa.bool_()),
        ("duration_ns", pa.uint64()),
        ("samples", pa.uint32()),
        ("error", pa.string()),
    ]
)


def sample_tables(batches: Sequence[Batch]) -> dict[str, pa.Table]:
    """The tables that `insert_metric_columns` takes: series, samples and scrapes."""
    columns = {
        "series": np.frombuffer(b"".join([batch.series for batch in batches]), "<u8"),
        "time_ns": np.frombuffer(b"".join([batch.times for batch in batches]), "<i8"),
        "start_ns": np.frombuffer(b"".join([batch.starts for batch in batches]), "<i8"),
        "value": np.frombuffer(b"".join([batch.values for batch in batches]), "<f8"),
    }
    return {
        "series": _series({definition.series: definition for batch in batches for definition in batch.definitions}),
        "samples": pa.table(columns, schema=SAMPLE_SCHEMA),
        "scrapes": _scrapes([scrape for batch in batches for scrape in batch.scrapes]),
    }


def _series(by_id: dict[int, Definition]) -> pa.Table:
    definitions = list(by_id.values())
    columns = {
        "metric": [definition.metric for definition in definitions],
        "series": [definition.series for definition in definitions],
        "kind": [definition.kind for definition in definitions],
        "unit": [definition.unit for definition in definitions],
        "delta": [definition.delta for definition in definitions],
        "labels": [list(definition.labels) for definition in definitions],
        "seen_ns": [time.time_ns()] * len(definitions),
    }
    return pa.table(columns, schema=SERIES_SCHEMA)


def _scrapes(scrapes: list[Scrape]) -> pa.Table:
    return pa.table({name: [getattr(scrape, name) for scrape in scrapes] for name in _SCRAPES.names}, schema=_SCRAPES)
