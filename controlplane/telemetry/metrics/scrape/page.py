"""A page of metrics, Prometheus text 0.0.4 or OpenMetrics 1.0, by prometheus-client's parsers."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format
from prometheus_client.samples import Exemplar, Timestamp

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
MAX_BYTES = 16 * 2**20
MAX_SAMPLES = 50_000
MAX_LINE_BYTES = 64 * 1024
"""The parsers take time that grows with the square of a line's length."""


class PageError(ValueError):
    """The page cannot be used, with the reason."""


class Sample(NamedTuple):
    """`time_ns` is 0 where the page gives none, `start_ns` where it does not say since when it counts."""

    metric: str
    labels: Mapping[str, str]
    value: float
    kind: str
    unit: str
    time_ns: int
    start_ns: int
    exemplar: Exemplar | None = None


class Page(NamedTuple):
    """`unread`: how many exemplars were left out, because they would have cost the page."""

    samples: list[Sample]
    unread: int = 0


def read(body: bytes, content_type: str) -> Page:
    """Raises PageError. `NAME_created` samples become the start of the series that they speak of."""
    if body.count(b"\n") > 4 * MAX_SAMPLES:
        raise PageError(f"the page has more than {4 * MAX_SAMPLES} lines: have it expose less, or scrape its parts")
    if max(map(len, body.split(b"\n"))) > MAX_LINE_BYTES:
        raise PageError(f"the page has a line of more than {MAX_LINE_BYTES} bytes: have it expose shorter labels")
    is_openmetrics = content_type.partition(";")[0].strip().lower() == "application/openmetrics-text"
    try:
        return Page(_read(body, is_openmetrics))
    except PageError:
        bare, unread = _EXEMPLAR.subn(rb"\1", body) if is_openmetrics else (body, 0)
        if not unread:
            raise
        return Page(_read(bare, is_openmetrics), unread)


def _read(body: bytes, is_openmetrics: bool) -> list[Sample]:
    try:
        families = list((openmetrics if is_openmetrics else text_format)(body.decode()))
    except Exception as error:  # the parsers raise whatever goes wrong in them
        what = "OpenMetrics" if is_openmetrics else "Prometheus' text format"
        raise PageError(f"the page is not {what}: {_short(error)}") from error
    created = _created(families)
    bare = frozenset() if is_openmetrics else frozenset(_BARE.findall(body.decode()))
    found = []
    for family in families:
        for sample in _samples(family, created):
            if family.type == "counter" and family.name in bare:
                sample = sample._replace(metric=family.name)
            found.append(sample)
            if len(found) > MAX_SAMPLES:
                raise PageError(f"the page has more than {MAX_SAMPLES} samples: have it expose less")
    return found


_EXEMPLAR = re.compile(rb"^([^#\n].*?) # \{.*$", re.MULTILINE)
"""A sample's line with an exemplar: what stands before it."""

_BARE = re.compile(r"^# TYPE (\S+)(?<!_total) counter\s*$", re.MULTILINE)
"""Counters of the text format without `_total`, as Triton's are: the parser adds it, and here it goes off again."""

Created = dict[tuple[str, tuple[tuple[str, str], ...]], int]
_PARTS = ("_total", "_bucket", "_count", "_sum", "")
_OWN = frozenset({"le", "quantile"})


def _created(families: list[Metric]) -> Created:
    """Since when the series of each family and labels count, ns. In the text format each is a gauge of its own."""
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
        if sample.value is None:  # a native histogram alone: its classic series are beside it, or it is not taken
            continue
        kind = _kind(family.type, sample.name, sample.labels)
        start_ns = 0
        if kind == "counter" and created:
            own = tuple(sorted((name, value) for name, value in sample.labels.items() if name not in _OWN))
            base = next((sample.name.removesuffix(part) for part in _PARTS if sample.name.endswith(part)), sample.name)
            start_ns = created.get((base, own), 0)
        yield Sample(
            sample.name,
            sample.labels,
            float(sample.value),
            kind,
            family.unit,
            ns(sample.timestamp),
            start_ns,
            sample.exemplar,
        )


def ns(timestamp: float | Timestamp | None) -> int:
    """A time in seconds; a double of seconds is good for microseconds."""
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
