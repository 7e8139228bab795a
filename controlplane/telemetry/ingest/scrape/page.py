"""Parses a page of metrics, Prometheus text 0.0.4 or OpenMetrics 1.0, with prometheus-client's parsers."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format
from prometheus_client.samples import Timestamp

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
MAX_BYTES = 16 * 2**20
MAX_SAMPLES = 50_000
MAX_LINE_BYTES = 64 * 1024
"""The parsers' time grows with the square of a line's length."""


class PageError(ValueError):
    """The page cannot be used; permanent. The message has the reason."""


class Sample(NamedTuple):
    """A sample. `time_ns` is 0 where the page gives no time, `start_ns` where it gives no start."""

    metric: str
    labels: Mapping[str, str]
    value: float
    kind: str
    unit: str
    time_ns: int
    start_ns: int


def read(body: bytes, content_type: str) -> list[Sample]:
    """Parse a page. A `NAME_created` sample becomes the start of the series NAME. Raises PageError."""
    if body.count(b"\n") > 4 * MAX_SAMPLES:
        raise PageError(f"the page has more than {4 * MAX_SAMPLES} lines: have it expose less, or scrape its parts")
    if max(map(len, body.split(b"\n"))) > MAX_LINE_BYTES:
        raise PageError(f"the page has a line of more than {MAX_LINE_BYTES} bytes: have it expose shorter labels")
    is_openmetrics = content_type.partition(";")[0].strip().lower() == "application/openmetrics-text"
    try:
        return _read(body, is_openmetrics)
    except PageError:
        bare = _EXEMPLAR.sub(rb"\1", body)  # one that cannot be read does not cost the page
        if not is_openmetrics or bare == body:
            raise
        return _read(bare, is_openmetrics)


def _read(body: bytes, is_openmetrics: bool) -> list[Sample]:
    try:
        families = list((openmetrics if is_openmetrics else text_format)(body.decode()))
    except Exception as error:  # the parsers raise errors of any kind
        what = "OpenMetrics" if is_openmetrics else "Prometheus' text format"
        raise PageError(f"the page is not {what}: {_short(error)}") from error
    # What is lacking ends no series, and a part of a number does not count.
    if not is_openmetrics and body[-1:] not in (b"", b"\n"):
        raise PageError("the page was cut: its last line has no end")
    created = _created(families)
    bare = frozenset() if is_openmetrics else frozenset(_BARE.findall(body.decode()))
    samples = []
    for family in families:
        for sample in _samples(family, created):
            if family.type == "counter" and family.name in bare:
                sample = sample._replace(metric=family.name)
            samples.append(sample)
            if len(samples) > MAX_SAMPLES:
                raise PageError(f"the page has more than {MAX_SAMPLES} samples: have it expose less")
    return samples


_EXEMPLAR = re.compile(rb"^([^#\n].*?) # \{.*$", re.MULTILINE)
"""A line of a sample with an exemplar. The group is the part before the exemplar."""

_BARE = re.compile(r"^# TYPE (\S+)(?<!_total) counter\s*$", re.MULTILINE)
"""Counters of the text format without `_total`, such as Triton's. The parser adds `_total`, and it is removed again."""

Created = dict[tuple[str, tuple[tuple[str, str], ...]], int]
_PARTS = ("_total", "_bucket", "_count", "_sum", "")
_OWN = frozenset({"le", "quantile"})


def _created(families: list[Metric]) -> Created:
    """When the series of each family and labels began to count, ns. In the text format each is a gauge of its own."""
    return {
        (sample.name.removesuffix("_created"), tuple(sorted(sample.labels.items()))): round(sample.value * 1e9)
        for family in families
        for sample in family.samples
        if sample.name.endswith("_created") and 0 < sample.value < 2**33
    }


def _samples(family: Metric, created: Created) -> Iterator[Sample]:
    for sample in family.samples:
        if sample.name.endswith("_created") and family.type in ("counter", "histogram", "summary", "gauge"):
            continue
        if sample.value is None:  # a native histogram: only classic series are read
            continue
        kind = _kind(family.type, sample.name, sample.labels)
        start_ns = 0
        if kind == "counter" and created:
            own = tuple(sorted((name, value) for name, value in sample.labels.items() if name not in _OWN))
            base = next((sample.name.removesuffix(part) for part in _PARTS if sample.name.endswith(part)), sample.name)
            start_ns = created.get((base, own), 0)
        yield Sample(sample.name, sample.labels, float(sample.value), kind, family.unit, ns(sample.timestamp), start_ns)


def ns(timestamp: float | Timestamp | None) -> int:
    """A timestamp in seconds as nanoseconds. A double of seconds has a precision of microseconds."""
    if timestamp is None:
        return 0
    if isinstance(timestamp, Timestamp):
        return timestamp.sec * 10**9 + timestamp.nsec
    return round(timestamp * 1e6) * 1000 if abs(timestamp) < 2**33 else 0


def _kind(family: str, name: str, labels: Mapping[str, str]) -> str:
    if family == "counter":
        return "counter"
    if family in ("histogram", "summary"):
        return "gauge" if family == "summary" and not name.endswith(("_sum", "_count")) else "counter"
    return "unknown" if family in ("unknown", "untyped") else "gauge"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
