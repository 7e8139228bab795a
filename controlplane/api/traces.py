"""`GET traces/{trace_id}`: a trace's spans, and the ledger of each request in it."""

import re
from typing import Any

from django.http import Http404, HttpRequest
from ninja import Router

from controlplane.api import render
from controlplane.api.schemas import ProblemOut, TraceOut
from controlplane.telemetry.ask import answers
from controlplane.telemetry.ask.errors import BadQuestion

router = Router(tags=["traces"])


@router.get("/{trace_id}", response={200: TraceOut, 404: ProblemOut}, summary="One trace")
def trace(request: HttpRequest, trace_id: str) -> dict[str, Any]:
    if not re.fullmatch(r"[0-9a-fA-F]{32}", trace_id):
        raise BadQuestion("trace_id", trace_id, "is not a trace id", "Give 32 hexadecimal digits")
    found = answers.trace(trace_id.lower())
    if found is None:
        raise Http404(
            f"No trace {trace_id}: spans arrive within seconds of a request's end, and are kept for WEIR_RETENTION_DAYS"
        )
    return {
        "trace_id": trace_id.lower(),
        "requests": [
            {**render.row(row), "segments": [part._asdict() for part in found.segments(row)]} for row in found.rows
        ],
        "spans": [render.span(span) for span in found.spans],
    }
