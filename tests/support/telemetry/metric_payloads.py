"""OTLP requests with metrics."""

import time
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.support.telemetry.process import Running

DELTA, CUMULATIVE = 1, 2
S = 10**9
NOW_NS = time.time_ns()


def request(**metrics: Any) -> ExportMetricsServiceRequest:
    """One resource with these metrics, each given as the fields of `Metric` without its name."""
    made = ExportMetricsServiceRequest()
    resource = made.resource_metrics.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "tests"
    scope = resource.scope_metrics.add()
    for name, what in metrics.items():
        scope.metrics.add(name=name, **what)
    return made


def counter(
    *values: float, temporality: int = CUMULATIVE, monotonic: bool = True, at_ns: int = NOW_NS
) -> dict[str, Any]:
    points = [
        {"as_double": value, "time_unix_nano": at_ns + n * S, "start_time_unix_nano": max(0, at_ns - 60 * S)}
        for n, value in enumerate(values)
    ]
    return {"sum": {"aggregation_temporality": temporality, "is_monotonic": monotonic, "data_points": points}}


def send(telemetry: Running, made: ExportMetricsServiceRequest) -> Any:
    code, answer, _ = telemetry.post(made.SerializeToString(), "metrics")
    assert code == 200
    return ExportMetricsServiceResponse.FromString(answer).partial_success
