"""`GET explain`: compares the slow requests with the others."""

import time
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api import render
from controlplane.api.query_parameters import question_of
from controlplane.api.schemas.explain import ExplainOut, ExplainParameters
from controlplane.serving_stack import pools_served
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.causes import causes_of
from controlplane.telemetry.query.core.slow import parse_slow

router = Router(tags=["explain"])


@router.get("", response=ExplainOut, summary="What is different about the slow requests")
def explain(request: HttpRequest, parameters: Query[ExplainParameters]) -> dict[str, Any]:
    question = question_of(request)
    slow = parse_slow(dict(request.GET.lists()), time.time_ns())
    region, explanation = answers.explanation(question, slow, parameters.limit)
    return render.explanation(explanation, region, question.range.window, causes_of(question, slow, pools_served()))
