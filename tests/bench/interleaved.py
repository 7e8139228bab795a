"""Traces whose parts come from two exporters 5 s apart, against the same traces sent whole: what they cost, and that their rows agree.

The waits that the pipeline takes on purpose, for the rest of a trace, are not counted: only the time in which it works.
"""

import http.client
import time
from collections.abc import Iterator, Sequence

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from controlplane.telemetry.ingest.pipeline.traces import Limits
from tests.bench.figures import Figure, over_rounds, say
from tests.bench.loads.otlp_load import TRACES_PER_REQUEST, templates
from tests.bench.processes import BenchError
from tests.bench.telemetry import Telemetry

TRACES, APART_S, ROUNDS = 10_000, 5.0, 3
PATIENCE_S = 60.0


def run(weir: Telemetry) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {"whole": [], "interleaved": []}
    cpu_ns: dict[str, list[float]] = {"whole": [], "interleaved": []}
    for number in range(ROUNDS):
        say(f"interleaved: round {number + 1} of {ROUNDS}")
        whole, parts = _bodies(number), _bodies(number)
        sends = {
            "whole": (whole, [whole]),
            "interleaved": (parts, [[_part(body, own) for body in parts] for own in (True, False)]),
        }
        for kind, (bodies, sent) in sends.items():
            before_ns = weir.child.cpu_ns()
            rates[kind].append(_rate(weir, bodies, sent))
            cpu_ns[kind].append(weir.child.cpu_ns() - before_ns)
    rate = {kind: over_rounds(values) for kind, values in rates.items()}
    yield Figure(
        "ingest.interleaved_spans_per_s", rate["interleaved"], "spans/s", f"{rate['whole']:.0f} spans/s of whole traces"
    )
    yield Figure("ingest.interleaved_vs_whole", rate["interleaved"] / rate["whole"], "ratio", "0.8")
    cost = over_rounds(cpu_ns["whole"]) / over_rounds(cpu_ns["interleaved"])
    yield Figure("ingest.interleaved_cpu_vs_whole", cost, "ratio", "CPU of whole traces over that of interleaved ones")


def _bodies(seed: int) -> list[ExportTraceServiceRequest]:
    """New traces of the same shapes at each call."""
    rng, chosen = np.random.default_rng(time.time_ns()), templates(seed)
    return [
        ExportTraceServiceRequest.FromString(chosen[number % len(chosen)].render(rng, time.time_ns())[0])
        for number in range(TRACES // TRACES_PER_REQUEST)
    ]


def _part(body: ExportTraceServiceRequest, gateways: bool) -> ExportTraceServiceRequest:
    """The gateway's spans of a body, or the others."""
    part = ExportTraceServiceRequest()
    for resource in body.resource_spans:
        if any(scope.scope.name == "weir.gateway" for scope in resource.scope_spans) == gateways:
            part.resource_spans.add().CopyFrom(resource)
    return part


def _rate(
    weir: Telemetry, whole: Sequence[ExportTraceServiceRequest], sends: Sequence[Sequence[ExportTraceServiceRequest]]
) -> float:
    """Spans a second of work. Raises BenchError where rows do not have all spans of their traces."""
    spans = sum(
        len(scope.spans) for body in whole for resource in body.resource_spans for scope in resource.scope_spans
    )
    traces = TRACES // TRACES_PER_REQUEST * TRACES_PER_REQUEST
    before = weir.rows()
    working_s, sent = 0.0, 0
    for number, send in enumerate(sends):
        if number:
            time.sleep(APART_S)
        sent += sum(
            len(scope.spans) for body in send for resource in body.resource_spans for scope in resource.scope_spans
        )
        began = time.monotonic()
        _post(weir.port, [body.SerializeToString() for body in send])
        deadline = began + PATIENCE_S
        while (grown := tuple(now - then for now, then in zip(weir.rows(), before, strict=True))) != (traces, sent):
            if time.monotonic() > deadline:
                raise BenchError(f"{traces} traces of {sent} spans have (rows, spans in them) = {grown}")
            time.sleep(0.02)
        working_s += max(0.05, time.monotonic() - began - Limits().quiet_s)
    return spans / working_s


def _post(port: int, bodies: Sequence[bytes]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    for body in bodies:
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise BenchError(f"OTLP answered {answer.status}")
    connection.close()
