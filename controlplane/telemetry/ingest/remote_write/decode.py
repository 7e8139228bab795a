"""Reads remote write's messages as samples.

A histogram becomes classic buckets, `NAME_sum` and `NAME_count`, as in OTLP. Samples may come in any order. A resend replaces the same
samples, and of two values for one series and time the one that was sent later counts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from google.protobuf.message import DecodeError

from controlplane.telemetry.ingest.otlp.decode.malformed import MalformedError
from controlplane.telemetry.ingest.otlp.decode.wire import fields
from controlplane.telemetry.metrics.batch import Builder
from controlplane.telemetry.metrics.core import buckets
from controlplane.telemetry.metrics.core.stale import STALE, is_stale
from controlplane.telemetry.metrics.exemplars import UNREADABLE, Exemplars

from .messages import Exemplar1, Exemplar2, Series1, Series2

MAX_SERIES_BYTES = 2**20
"""One series of a request. Parsed, it may take fifty times as much memory."""
MAX_SYMBOLS = 2**20
Pairs = list[tuple[str, str]]
CUSTOM_BUCKETS = -53
"""The schema of native histograms with explicit bounds."""
_GAUGE_HINT = 3
_NO_NAME = "a series has no __name__"

_KINDS = {1: "counter", 2: "gauge", 3: "counter", 4: "gauge", 5: "counter", 6: "gauge", 7: "gauge"}
"""2.0's metric types: counter, gauge, histogram, gauge histogram, summary, info, state set."""


@dataclass
class Written:
    """The counts in the answer's headers."""

    samples: int = 0
    histograms: int = 0
    exemplars: int = 0


def read(body: bytes, *, version: int, into: Builder) -> Written:
    """The samples of a decompressed body of version 1 or 2. Raises MalformedError where the body as a whole cannot be read."""
    written = Written()
    if version == 1:
        for number, start, end in fields(body, 0, len(body)):
            if number == 1 and (series := _series(Series1, body, start, end, into)):
                _take(series, _labels(series), "unknown", "", into, written, _exemplar1)
        return written
    symbols: list[str] = []
    places: list[tuple[int, int]] = []
    for number, start, end in fields(body, 0, len(body)):
        if number == 4:
            symbols.append(_symbol(body[start:end]))
            if len(symbols) > MAX_SYMBOLS:
                raise MalformedError(f"the request has more than {MAX_SYMBOLS} symbols: send smaller batches")
        elif number == 5:
            places.append((start, end))
    if places and (not symbols or symbols[0]):
        raise MalformedError("the request's symbols do not begin with the empty string")
    for start, end in places:
        if series := _series(Series2, body, start, end, into):
            pairs = _pairs(series.labels_refs, symbols)
            unit = symbols[series.metadata.unit_ref] if series.metadata.unit_ref < len(symbols) else ""
            kind = _kind(series.metadata.type, pairs)
            _take(series, pairs, kind, unit, into, written, partial(_exemplar2, symbols=symbols))
    return written


def _labels(labelled: Any) -> Pairs:
    return [(label.name, label.value) for label in labelled.labels]


def _exemplar1(data: bytes) -> tuple[Any, Pairs]:
    exemplar = Exemplar1.FromString(data)
    return exemplar, _labels(exemplar)


def _exemplar2(data: bytes, symbols: list[str]) -> tuple[Any, Pairs]:
    exemplar = Exemplar2.FromString(data)
    return exemplar, _pairs(exemplar.labels_refs, symbols)


def _symbol(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("a symbol of the request is not UTF-8") from error


def _series(kind: Callable[[], Any], body: bytes, start: int, end: int, into: Builder) -> Any:
    if end - start > MAX_SERIES_BYTES:
        into.reject(f"a series has more than {MAX_SERIES_BYTES} bytes")
        return None
    series = kind()
    try:
        series.ParseFromString(body[start:end])
    except DecodeError as error:
        raise MalformedError("the body is not a remote-write request: a series that cannot be read") from error
    return series


def _pairs(refs: Sequence[int], symbols: list[str]) -> Pairs:
    if len(refs) % 2 or any(ref >= len(symbols) for ref in refs):
        raise MalformedError("a series' labels_refs are not pairs of symbols")
    return [(symbols[refs[at]], symbols[refs[at + 1]]) for at in range(0, len(refs), 2)]


def _kind(number: int, pairs: Pairs) -> str:
    """The kind of a series. A summary's quantiles are gauges, although its sum and count are counters."""
    kind = _KINDS.get(number, "unknown")
    return "gauge" if number == 5 and any(name == "quantile" for name, _ in pairs) else kind


def _take(
    series: Any,
    pairs: Pairs,
    kind: str,
    unit: str,
    into: Builder,
    written: Written,
    read_exemplar: Callable[[bytes], tuple[Any, Pairs]],
) -> None:
    names = [value for name, value in pairs if name == "__name__"]
    labels = [(name, value) for name, value in pairs if name != "__name__"]
    if len(names) != 1 or not names[0]:
        into.reject(_NO_NAME if not names else "a series has more than one __name__, or an empty one",
                    max(1, len(series.samples) + len(series.histograms)))  # fmt: skip
        return
    created_ns = _ns(getattr(series, "created_timestamp", 0))
    if series.samples:
        series_id = into.series(names[0], labels, kind=kind, unit=unit, samples=len(series.samples))
        for sample in series.samples if series_id is not None else ():
            assert series_id is not None
            start_ns = _ns(sample.start_timestamp) or created_ns
            written.samples += into.add(series_id, _ns(sample.timestamp), sample.value, start_ns)
    for histogram in series.histograms:
        written.histograms += _histogram(names[0], labels, unit, histogram, created_ns, into)
    if series.exemplars:
        # A native histogram has one list of exemplars, which belong to its count. Some senders send them without any sample.
        name = f"{names[0]}_count" if series.histograms else names[0]
        series_id = into.series(name, labels, kind=kind, unit=unit, samples=0)
        written.exemplars += sum(
            _exemplar(series_id, data, read_exemplar, into.exemplars) for data in into.exemplars.some(series.exemplars)
        )


def _exemplar(
    series: int | None, data: bytes, read_exemplar: Callable[[bytes], tuple[Any, Pairs]], into: Exemplars
) -> bool:
    try:
        exemplar, labels = read_exemplar(data)
    except (DecodeError, MalformedError):
        into.drop(UNREADABLE)
        return False
    return into.labelled(series, _ns(exemplar.timestamp), exemplar.value, labels)


def _ns(milliseconds: int) -> int:
    """Nanoseconds; 0, which means no time, where they do not fit 64 bits."""
    return milliseconds * 1_000_000 if 0 < milliseconds < 2**63 // 1_000_000 else 0


def _histogram(name: str, labels: Pairs, unit: str, histogram: Any, created_ns: int, into: Builder) -> bool:
    """Add all series of a histogram or none. Whether they were added."""
    ended = is_stale(histogram.sum)
    try:
        by_bound = _buckets(histogram)
    except ValueError as error:
        into.reject(str(error))
        return False
    kind = "gauge" if histogram.reset_hint == _GAUGE_HINT else "counter"
    total = histogram.count_int or histogram.count_float
    parts = [
        *((f"{name}_bucket", [*labels, ("le", buckets.text(bound))], count) for bound, count in by_bound),
        (f"{name}_count", labels, total),
        (f"{name}_sum", labels, histogram.sum),
    ]
    ids = []
    for metric, pairs, value in parts:
        series = into.series(metric, pairs, kind=kind, unit=unit)
        if series is None:
            return False
        ids.append((series, value))
    time_ns, start_ns = _ns(histogram.timestamp), _ns(histogram.start_timestamp) or created_ns
    return all(into.add(series, time_ns, STALE if ended else value, start_ns) for series, value in ids)


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
