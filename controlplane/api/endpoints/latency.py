"""`GET latency` and `GET latency/series`: time by stage, as one report or over time."""

from dataclasses import asdict, fields
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api.query_parameters import question_of
from controlplane.api.schemas.latency import LatencyOut, LatencyParameters, SeriesOut, SeriesParameters
from controlplane.telemetry.core.query_types import LatencyReport, StageFigures
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS

router = Router(tags=["latency"])
MAX_POINTS = 2000
SAME = ("requests", "answered", "errors", "cancelled", "unmeasured", "e2e_ms", "newest_ns", "exact")
"""What a report is answered with as it is."""
FIGURES = tuple(field.name for field in fields(StageFigures))


@router.get("", response=LatencyOut, summary="Quantiles and shares by stage")
def latency(request: HttpRequest, parameters: Query[LatencyParameters]) -> dict[str, Any]:
    question = answers.rounded(question_of(request))
    report = answers.report(question)
    answer: dict[str, Any] = {
        **report_out(report),
        "failures": answers.failures(question) if report.errors else [],
        "from_ns": question.range.window.from_ns,
        "to_ns": question.range.window.to_ns,
        "group_by": parameters.group_by,
    }
    if parameters.group_by:
        groups = answers.report_by(question, parameters.group_by)
        answer["groups"] = {value: report_out(report) for value, report in groups.items()}
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
        "points": answers.series(question, step, rolled),
    }


def report_out(measured: LatencyReport) -> dict[str, Any]:
    frequent = max(measured.ttft_ms, key=lambda name: (measured.ttft_count.get(name, 0), name), default=None)
    unattributed = measured.stages.get("unattributed")
    return {
        **{name: getattr(measured, name) for name in SAME},
        "ttft_ms": None if frequent is None else {**asdict(measured.ttft_ms[frequent]), "definition": frequent},
        "ttft_ms_by_definition": {
            name: {**asdict(value), "requests": measured.ttft_count.get(name, 0)}
            for name, value in sorted(measured.ttft_ms.items())
        },
        "stages": {
            name: {
                **(dict.fromkeys(FIGURES) if measured.known(name) == "not measured" else asdict(figures)),
                "lower_bound": measured.known(name) == "at least",
            }
            for name, figures in measured.stages.items()
            if name != "unattributed"
        },
        "unattributed_share": unattributed.share if unattributed else None,
        "unattributed_share_above_median": unattributed.share_above_median if unattributed else None,
    }
