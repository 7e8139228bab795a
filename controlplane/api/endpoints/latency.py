"""`GET latency` and `GET latency/series`: time by stage, as one report or over time."""

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api import render
from controlplane.api.query_parameters import question_of
from controlplane.api.schemas.latency import LatencyOut, LatencyParameters, SeriesOut, SeriesParameters
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS

router = Router(tags=["latency"])
MAX_POINTS = 2000


@router.get("", response=LatencyOut, summary="Quantiles and shares by stage")
def latency(request: HttpRequest, parameters: Query[LatencyParameters]) -> dict[str, Any]:
    question = answers.rounded(question_of(request))
    report = answers.report(question)
    answer: dict[str, Any] = {
        **render.report(report),
        "failures": [asdict(each) for each in answers.failures(question)] if report.errors else [],
        "from_ns": question.range.window.from_ns,
        "to_ns": question.range.window.to_ns,
        "group_by": parameters.group_by,
    }
    if parameters.group_by:
        groups = answers.report_by(question, parameters.group_by)
        answer["groups"] = {value: render.report(report) for value, report in groups.items()}
    return answer


@router.get("/series", response=SeriesOut, summary="Quantiles over time")
def series(request: HttpRequest, parameters: Query[SeriesParameters]) -> dict[str, Any]:
    question = answers.rounded(question_of(request))
    step = parameters.step_s * SECOND_NS if parameters.step_s else answers.step_ns(question)
    if question.range.length_ns // step > MAX_POINTS:
        longer = -(-question.range.length_ns // SECOND_NS // MAX_POINTS)
        raise BadQuestionError(
            "step_s", str(parameters.step_s), f"makes more than {MAX_POINTS} points", f"Use {longer} or more"
        )
    rolled = answers.rolled(question, step)
    return {
        "from_ns": question.range.window.from_ns,
        "to_ns": question.range.window.to_ns,
        "step_ns": step,
        "exact": rolled is None,
        "points": [render.point(point) for point in answers.series(question, step, rolled)],
    }
