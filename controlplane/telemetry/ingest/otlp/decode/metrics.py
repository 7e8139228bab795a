"""Reads OTLP metrics as samples. Names and labels stay as they were sent.

A sum or a gauge is one series. A histogram is `NAME_bucket{le}`, `NAME_sum` and `NAME_count`; a summary is `NAME{quantile}`, `NAME_sum` and
`NAME_count`. Deltas are stored as deltas and summed up when they are read, so that resends and restarts of the receiver do no harm.
https://opentelemetry.io/docs/specs/otel/metrics/data-model/
"""

from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from controlplane.telemetry.ingest.otlp.decode.from_json import as_protobuf
from controlplane.telemetry.ingest.otlp.decode.malformed import MalformedError
from controlplane.telemetry.ingest.otlp.decode.wire import MAX_MESSAGE_BYTES, count, parse, scopes
from controlplane.telemetry.metrics.batch import Builder
from controlplane.telemetry.metrics.core import buckets
from controlplane.telemetry.metrics.core.stale import STALE

MAX_POINTS = 65_536

RESOURCE_LABELS = frozenset(
    {
        "service.name", "service.namespace", "service.instance.id", "host.name", "deployment.environment.name", "cloud.region",
        "k8s.namespace.name", "k8s.pod.name", "k8s.node.name", "gpu.id",
    }
)  # fmt: skip
"""Resource attributes that become labels: the sender and where it runs. Others change with every start and would make new series."""

_POINT_KINDS = frozenset({5, 7, 9, 10, 11})
_DELTA, _CUMULATIVE = (
    AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA,
    AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE,
)
_NO_VALUE = 1  # DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

Pairs = dict[str, str]


def read_protobuf(body: bytes, into: Builder) -> None:
    """Raises MalformedError where the body as a whole cannot be read."""
    for base, scope, places in scopes(body, _resource_labels):
        labels = {**base, "otel.scope.name": scope}
        for start, end in places:
            data = body[start:end]
            points, metric = 1, None
            try:
                points = count(data, _POINT_KINDS, 1)
                if end - start <= MAX_MESSAGE_BYTES and points <= MAX_POINTS:
                    metric = parse(Metric, data)
            except MalformedError:
                into.reject("a metric cannot be read: it is no protobuf, or a text of it is no UTF-8", max(1, points))
                continue
            if metric is None:
                into.reject(f"a metric has more than {MAX_MESSAGE_BYTES} bytes or {MAX_POINTS} data points", points)
            else:
                _metric(metric, labels, into)


def read_json(body: bytes, into: Builder) -> None:
    """Raises MalformedError where the body as a whole cannot be read."""
    read_protobuf(as_protobuf(body, ExportMetricsServiceRequest), into)


def _metric(metric: Metric, labels: Pairs, into: Builder) -> None:
    name, unit = metric.name, metric.unit
    which = metric.WhichOneof("data")
    if which is None:
        return
    data = getattr(metric, which)
    temporality = getattr(data, "aggregation_temporality", _CUMULATIVE)
    monotonic = which != "sum" or data.is_monotonic
    if reason := _fault(temporality, monotonic=monotonic):
        into.reject(reason, len(data.data_points))
        return
    delta = temporality == _DELTA
    for point in data.data_points:
        own = {pair.key: _text(pair.value) for pair in point.attributes}
        series = _Point(name, unit, {**labels, **own}, delta, point, into)
        if which in ("sum", "gauge"):
            kind, number = "counter" if which == "sum" and monotonic else "gauge", point.WhichOneof("value")
            if number is None and not point.flags & _NO_VALUE:
                series.refuse("a data point has no number")
            else:
                series.add([("", (), float(getattr(point, number or "as_double")), kind)])
        elif which == "summary":
            _summary(point, series)
        else:
            _histogram(which, point, series)


def _fault(temporality: int, *, monotonic: bool) -> str:
    if temporality not in (_DELTA, _CUMULATIVE):
        return "aggregation_temporality is not set"
    if temporality == _DELTA and not monotonic:
        return "a sum that may fall and is sent as deltas has no value of its own: send it as cumulative"
    return ""


class _Point:
    """The series of one data point. All of them are stored or none, because a histogram without some of its buckets is wrong."""

    def __init__(self, name: str, unit: str, labels: Pairs, delta: bool, point: Any, into: Builder) -> None:
        self._name, self._unit, self._labels, self._delta, self._into = name, unit, labels, delta, into
        self._time_ns, self._start_ns = point.time_unix_nano, point.start_time_unix_nano
        self._has_no_value = bool(point.flags & _NO_VALUE)

    def add(self, parts: Iterable[tuple[str, Iterable[tuple[str, str]], float, str]]) -> None:
        samples = []
        for suffix, extra, value, kind in parts:
            labels = {**self._labels, **dict(extra)}
            series = self._into.series(
                self._name + suffix, labels.items(), kind=kind, unit=self._unit, delta=self._delta, samples=1
            )
            if series is None:
                return
            samples.append((series, value))
        for series, value in samples:
            if not self._into.add(series, self._time_ns, STALE if self._has_no_value else value, self._start_ns):
                return

    def refuse(self, reason: str) -> None:
        self._into.reject(reason)


def _histogram(which: str, point: Any, series: _Point) -> None:
    try:
        if which == "histogram":
            # bucket_counts may be missing: then there are only a sum and a count
            by_bound = buckets.explicit(point.explicit_bounds, point.bucket_counts) if point.bucket_counts else []
        else:
            by_bound = buckets.exponential(
                point.scale,
                point.zero_count,
                point.zero_threshold,
                _indexed(point.positive),
                _indexed(point.negative),
            )
    except ValueError as error:
        series.refuse(str(error))
        return
    parts: list[tuple[str, Iterable[tuple[str, str]], float, str]] = [
        ("_bucket", (("le", buckets.text(bound)),), total, "counter") for bound, total in by_bound
    ]
    parts.append(("_count", (), point.count, "counter"))
    if point.HasField("sum"):
        parts.append(("_sum", (), point.sum, "counter"))
    series.add(parts)


def _indexed(side: Any) -> dict[int, float]:
    return {side.offset + place: count for place, count in enumerate(side.bucket_counts)}


def _summary(point: Any, series: _Point) -> None:
    series.add(
        [
            *(("", (("quantile", repr(value.quantile)),), value.value, "gauge") for value in point.quantile_values),
            ("_count", (), point.count, "counter"),
            ("_sum", (), point.sum, "counter"),
        ]
    )


def _resource_labels(resource: Resource) -> Pairs:
    return {pair.key: _text(pair.value) for pair in resource.attributes if pair.key in RESOURCE_LABELS}


def _text(value: AnyValue) -> str:
    """An attribute as a label's value. Lists and maps are JSON."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "double_value":
        return repr(value.double_value)
    if kind is None:
        return ""
    return str(json_format.MessageToJson(value, indent=None))
