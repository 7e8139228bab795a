"""`GET traces/{trace_id}`: a trace's spans, and the ledger of each request in it."""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router

from controlplane.api.formats import TraceId
from controlplane.api.schemas.requests import RequestOut
from controlplane.api.schemas.traces import TraceOut
from controlplane.telemetry.query import answers

router = Router(tags=["traces"])


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
