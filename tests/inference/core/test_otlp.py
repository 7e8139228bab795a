"""Spans are written as OpenTelemetry's own classes read them."""

import math
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from inference.core import otlp
from inference.core.protobuf import read_varint, varint

TRACE, SPAN, PARENT = b"t" * 16, b"s" * 8, b"p" * 8
INTEGERS = [0, *(edge for power in (7, 12, 14, 21, 28, 35, 42, 49, 56) for edge in (2**power - 1, 2**power)), 2**63 - 1]
TEXTS = ["", "\u00fc", "x" * 127, "x" * 128, "x" * 5000]


def spans_of(*fields: bytes) -> list[Span]:
    message = ExportTraceServiceRequest.FromString(otlp.request(fields, "scope", [("service.name", "x")]))
    [resource] = message.resource_spans
    [scope] = resource.scope_spans
    assert (scope.scope.name, [(it.key, it.value.string_value) for it in resource.resource.attributes]) == (
        "scope",
        [("service.name", "x")],
    )
    return list(scope.spans)


def value_of(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return tuple(map(value_of, value.array_value.values)) if kind == "array_value" else getattr(value, str(kind))


@pytest.mark.parametrize(
    "value", [*INTEGERS, -1, True, False, 0.0, -1.5, math.inf, *TEXTS, (), ("a", "", "b" * 300)], ids=str
)
def test_an_attribute_is_read_as_it_was_written(value: Any) -> None:
    [span] = spans_of(otlp.span(TRACE, SPAN, b"", "n", otlp.CLIENT, 1, 2, otlp.attribute("key", value)))
    [attribute] = span.attributes
    assert (attribute.key, value_of(attribute.value), type(value_of(attribute.value))) == ("key", value, type(value))
    if type(value) is float:
        assert otlp.doubles("key")(value) == otlp.attribute("key", value)
    if type(value) is int and value >= 0:
        assert otlp.integers("key")(value) == otlp.attribute("key", value)
        assert read_varint(b"\xff" + varint(value) + b"\x01", 1) == (value, 1 + len(varint(value)))


def test_a_number_that_is_cut_off_is_as_large_as_what_there_is() -> None:
    assert [read_varint(raw, 1) for raw in (b"\x80", b"\x01\x80\x80", b"\x80" * 20)] == [(1, 1), (3, 3), (20, 11)]


@pytest.mark.parametrize("rest", [b"", otlp.attribute("a", "x" * 200)])
def test_a_span_is_read_as_it_was_written_and_its_shape_writes_the_same(rest: bytes) -> None:
    written = otlp.span(TRACE, SPAN, PARENT, "näme", otlp.INTERNAL, 3, 2**63, rest)
    assert otlp.shaped(otlp.shape("näme", otlp.INTERNAL, rest), TRACE, SPAN, PARENT, 3, 2**63) == written
    [span, root] = spans_of(
        written,
        otlp.span(
            TRACE, SPAN, b"", "r", otlp.SERVER, 0, 1, otlp.event(5, "e") + otlp.link(TRACE, PARENT), error="\u00fc"
        ),
    )
    assert (span.trace_id, span.span_id, span.parent_span_id, span.name) == (TRACE, SPAN, PARENT, "näme")
    assert (span.kind, span.start_time_unix_nano, span.end_time_unix_nano) == (Span.SPAN_KIND_INTERNAL, 3, 2**63)
    assert (len(span.attributes), span.status.code, root.kind) == (bool(rest), 0, Span.SPAN_KIND_SERVER)
    assert (root.status.code, root.status.message, root.parent_span_id) == (2, "\u00fc", b"")
    assert [(event.time_unix_nano, event.name) for event in root.events] == [(5, "e")]
    assert [(link.trace_id, link.span_id) for link in root.links] == [(TRACE, PARENT)]
