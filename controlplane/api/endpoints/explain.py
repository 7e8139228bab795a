"""`GET explain`: compares the slow requests with the others."""

import time
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api.query_parameters import question_of
from controlplane.api.schemas.explain import ExplainOut, ExplainParameters
from controlplane.serving_stack import pools_served
from controlplane.telemetry.explain.difference import nothing
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.causes import causes_of
from controlplane.telemetry.query.core.slow import parse_slow

router = Router(tags=["explain"])


@router.get("", response=ExplainOut, summary="What is different about the slow requests")
def explain(request: HttpRequest, parameters: Query[ExplainParameters]) -> dict[str, Any]:
    question = question_of(request)
    slow = parse_slow(dict(request.GET.lists()), time.time_ns())
    region, explanation = answers.explanation(question, slow, parameters.limit)
    causes = causes_of(question, slow, pools_served(), sample=True)
    window = region.window or question.range.window
    return {
        "region": {
            "e2e_from_ms": region.min_e2e_ns / 1e6,
            "e2e_to_ms": None if region.max_e2e_ns is None else region.max_e2e_ns / 1e6,
            "from_ns": window.from_ns,
            "to_ns": window.to_ns,
        },
        "one_in": explanation.one_in,
        "chosen": explanation.chosen,
        "rest": explanation.rest,
        "chosen_mean_ms": explanation.chosen_mean_ns,
        "rest_mean_ms": explanation.rest_mean_ns,
        "difference_ms": explanation.difference_ns,
        "stages": explanation.stages,
        "dimensions": explanation.dimensions,
        "findings": explanation.findings,
        "nothing": nothing(explanation),
        "causes": causes.named,
        "causes_one_in": causes.one_in,
        "unmeasured": causes.unmeasured,
    }
