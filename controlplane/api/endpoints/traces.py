"""`GET traces/{trace_id}`: a trace's spans, and the ledger of each request in it."""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema

from controlplane.api.endpoints.requests import RequestOut
from controlplane.api.formats import Hex, TraceId
from controlplane.telemetry.query import answers

router = Router(tags=["traces"])


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


@router.get("/{trace_id}", response=TraceOut, summary="One trace")
def trace(request: HttpRequest, trace_id: TraceId) -> dict[str, Any]:
    stored = answers.trace(trace_id.lower())
    if stored is None:
        raise Http404(
            f"No trace {trace_id}: spans arrive within seconds of a request's end, and are kept for WEIR_RETENTION_DAYS"
        )
    paths = stored.paths()
    return {
        "trace_id": trace_id.lower(),
        "requests": [
            {**RequestOut.model_validate(row).model_dump(), "segments": paths.get(row.request_id, [])}
            for row in stored.rows
        ],
        "span_count": stored.span_count,
        "spans": stored.spans,
    }
