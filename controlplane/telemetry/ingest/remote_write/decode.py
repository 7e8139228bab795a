"""Reads remote write's messages as samples.

A histogram becomes classic buckets, `NAME_sum` and `NAME_count`, as in OTLP. Samples may come in any order. A resend replaces the same
samples, and of two values for one series and time the one that was sent later counts.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from google.protobuf.message import DecodeError

from controlplane.telemetry.ingest.otlp.decode.wire import fields
from controlplane.telemetry.metrics.batch import Builder
from controlplane.telemetry.metrics.core import buckets
from controlplane.telemetry.metrics.core.stale import STALE, is_stale

from .messages import Series

MAX_SERIES_BYTES = 2**20
"""One series of a request. Parsed, it may take fifty times as much memory."""
Pairs = list[tuple[str, str]]
CUSTOM_BUCKETS = -53
"""The schema of native histograms with explicit bounds."""
_GAUGE_HINT = 3
_NO_NAME = "a series has no __name__"


def read(body: bytes, into: Builder) -> None:
    """The samples of a decompressed body. Raises MalformedError where the body as a whole cannot be read."""
    for number, start, end in fields(body, 0, len(body)):
        if number != 1:
            continue
        if end - start > MAX_SERIES_BYTES:
            into.reject(f"a series has more than {MAX_SERIES_BYTES} bytes")
            continue
        series = Series()
        try:
            series.ParseFromString(body[start:end])
        except DecodeError:
            into.reject("a series cannot be read: it is no protobuf, or a text of it is no UTF-8")
        else:
            _take(series, into)


def _take(series: Any, into: Builder) -> None:
    names = [label.value for label in series.labels if label.name == "__name__"]
    labels = [(label.name, label.value) for label in series.labels if label.name != "__name__"]
    if len(names) != 1 or not names[0]:
        into.reject(_NO_NAME if not names else "a series has more than one __name__, or an empty one",
                    max(1, len(series.samples) + len(series.histograms)))  # fmt: skip
        return
    if series.samples:
        series_id = into.series(names[0], labels, samples=len(series.samples))
        for sample in series.samples if series_id is not None else ():
            assert series_id is not None
            into.add(series_id, _ns(sample.timestamp), sample.value)
    for histogram in series.histograms:
        _histogram(names[0], labels, histogram, into)


def _ns(milliseconds: int) -> int:
    """Nanoseconds; 0, which means no time, where they do not fit 64 bits."""
    return milliseconds * 1_000_000 if 0 < milliseconds < 2**63 // 1_000_000 else 0


def _histogram(name: str, labels: Pairs, histogram: Any, into: Builder) -> None:
    """Add all series of a histogram or none."""
    ended = is_stale(histogram.sum)
    try:
        by_bound = _buckets(histogram)
    except ValueError as error:
        into.reject(str(error))
        return
    kind = "gauge" if histogram.reset_hint == _GAUGE_HINT else "counter"
    total = histogram.count_int or histogram.count_float
    parts = [
        *((f"{name}_bucket", [*labels, ("le", buckets.text(bound))], count) for bound, count in by_bound),
        (f"{name}_count", labels, total),
        (f"{name}_sum", labels, histogram.sum),
    ]
    ids = []
    for metric, pairs, value in parts:
        series = into.series(metric, pairs, kind=kind)
        if series is None:
            return
        ids.append((series, value))
    time_ns = _ns(histogram.timestamp)
    for series, value in ids:
        if not into.add(series, time_ns, STALE if ended else value):
            return


def _buckets(histogram: Any) -> list[buckets.Bucket]:
    positive = _side(histogram.positive_spans, histogram.positive_deltas, histogram.positive_counts)
    if histogram.scale == CUSTOM_BUCKETS:
        bounds = list(histogram.custom_bounds)
        if any(not -1 <= index < len(bounds) for index in positive):
            raise ValueError("a native histogram's bucket lies past its custom bounds")
        return buckets.explicit(bounds, [positive.get(index - 1, 0) for index in range(len(bounds) + 1)])
    return buckets.exponential(
        histogram.scale,
        histogram.zero_count_int or histogram.zero_count_float,
        histogram.zero_threshold if math.isfinite(histogram.zero_threshold) else 0.0,
        positive,
        _side(histogram.negative_spans, histogram.negative_deltas, histogram.negative_counts),
    )


def _side(spans: Any, deltas: Sequence[int], counts: Sequence[float]) -> dict[int, float]:
    """Counts by index. Integer counts are sent as differences from one bucket to the next."""
    return buckets.native_index(
        [(span.offset, span.length) for span in spans], list(accumulate(deltas)) if deltas else counts
    )
