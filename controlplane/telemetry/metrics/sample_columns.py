"""Batches of samples as the store's columns."""

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from controlplane.telemetry.store.metrics import SAMPLE_SCHEMA, SCRAPE_SCHEMA, SERIES_SCHEMA
from controlplane.telemetry.store.read.exemplars import EXEMPLAR_SCHEMA, NO_SPAN

from .batch import Batch, Scrape
from .core.series import Definition
from .exemplars import Exemplar


def sample_tables(batches: Sequence[Batch]) -> dict[str, pa.Table]:
    """What `insert_metric_columns` takes: series, samples, scrapes and exemplars."""
    columns = {
        "series": np.frombuffer(b"".join([batch.series for batch in batches]), "<u8"),
        "time_ns": np.frombuffer(b"".join([batch.times for batch in batches]), "<i8"),
        "start_ns": np.frombuffer(b"".join([batch.starts for batch in batches]), "<i8"),
        "value": np.frombuffer(b"".join([batch.values for batch in batches]), "<f8"),
    }
    return {
        "series": _series({one.series: one for batch in batches for one in batch.definitions}),
        "samples": pa.table(columns, schema=SAMPLE_SCHEMA),
        "scrapes": _scrapes([one for batch in batches for one in batch.scrapes]),
        "exemplars": _exemplars([one for batch in batches for one in batch.exemplars]),
    }


def _series(definitions: dict[int, Definition]) -> pa.Table:
    found = list(definitions.values())
    columns = {
        "metric": [one.metric for one in found],
        "series": [one.series for one in found],
        "kind": [one.kind for one in found],
        "unit": [one.unit for one in found],
        "delta": [one.delta for one in found],
        "labels": [list(one.labels) for one in found],
        "seen_ns": [time.time_ns()] * len(found),
    }
    return pa.table(columns, schema=SERIES_SCHEMA)


def _scrapes(scrapes: list[Scrape]) -> pa.Table:
    return pa.table(
        {name: [getattr(one, name) for one in scrapes] for name in SCRAPE_SCHEMA.names}, schema=SCRAPE_SCHEMA
    )


def _exemplars(exemplars: list[Exemplar]) -> pa.Table:
    columns = {name: [getattr(one, name) for one in exemplars] for name in EXEMPLAR_SCHEMA.names}
    columns["span_id"] = [one.span_id or NO_SPAN for one in exemplars]
    return pa.table(columns, schema=EXEMPLAR_SCHEMA)
