"""Shapes of traces."""

from typing import Any

from ninja import Field, Schema

from controlplane.api.formats import Hex
from controlplane.api.schemas.requests import RequestOut


class EventOut(Schema):
    time_ns: int
    name: str
    attributes: dict[str, Any]


class SpanLinkOut(Schema):
    trace_id: Hex
    span_id: Hex
    attributes: dict[str, Any]


class SpanOut(Schema):
    span_id: Hex
    parent_id: Hex
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    service: str
    scope: str
    attributes: dict[str, Any]
    events: list[EventOut]
    status_message: str
    resource: dict[str, Any] = Field(
        description="Attributes of its resource, such as `service.name` and `k8s.pod.name`"
    )
    links: list[SpanLinkOut]


class SegmentOut(Schema):
    """A stretch of a request's time that belongs to one span and one stage; a request's segments cover it without gap or overlap."""

    span_id: str
    stage: str
    start_ns: int
    end_ns: int


class TracedRequestOut(RequestOut):
    segments: list[SegmentOut]


class TraceOut(Schema):
    trace_id: str
    requests: list[TracedRequestOut]
    span_count: int = Field(description="All spans of the trace. `spans` are the first 10,000 by start")
    spans: list[SpanOut]
