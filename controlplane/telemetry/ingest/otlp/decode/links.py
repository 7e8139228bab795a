"""Reads a span's links from their bytes."""

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from controlplane.telemetry.core.spans import Link

from .any_value import attributes
from .malformed import MalformedError

TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8


def links_of(data: bytes) -> tuple[Link, ...]:
    """The links among the fields of a span. Raises MalformedError."""
    try:
        return links(WireSpan.FromString(data))
    except DecodeError:
        raise MalformedError("the body is not protobuf: a link that cannot be read") from None


def links(span: WireSpan) -> tuple[Link, ...]:
    """Links whose ids have another length lead nowhere, and are left out."""
    return tuple(
        [
            Link(link.trace_id, link.span_id, attributes(link.attributes))
            for link in span.links
            if len(link.trace_id) == TRACE_ID_BYTES and len(link.span_id) == SPAN_ID_BYTES
        ]
    )
