"""`GET targets`, `GET series` and its parts: received metrics, and the targets that they come from."""

import time
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from controlplane.api.schemas.signals import (
    MetricParameters,
    MetricsOut,
    PointParameters,
    PointsOut,
    ServersOut,
    SignalParameters,
    SignalsOut,
    TargetParameters,
    TargetsOut,
)
from controlplane.telemetry.query import exemplars, metric_answers
from controlplane.telemetry.query.core import metric_question
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.metric_question import Drawn, Signal
from controlplane.telemetry.query.core.timerange import SECOND_NS

router = Router(tags=["metrics"])
MAX_SERIES = 50


@router.get("/targets", response=TargetsOut, summary="Targets that are scraped: up, down or stale, and since when")
def targets(request: HttpRequest, parameters: Query[TargetParameters]) -> dict[str, Any]:
    window = _signal(request).range.window
    return {
        "from_ns": window.from_ns,
        "to_ns": window.to_ns,
        "targets": metric_answers.targets(window),
        "events": metric_answers.events(window),
    }


@router.get("/series", response=SignalsOut, summary="A metric's series, with the newest value of each and its age")
def series(request: HttpRequest, parameters: Query[SignalParameters]) -> dict[str, Any]:
    signal = _signal(request, of_a_metric=True)
    return {"metric": signal.metric, "series": metric_answers.newest(signal)}


@router.get(
    "/series/points",
    response=PointsOut,
    by_alias=True,
    summary="A metric's series over time: counters as rates; and exemplars, which lead to traces",
)
def points(request: HttpRequest, parameters: Query[PointParameters]) -> dict[str, Any]:
    signal = _signal(request, of_a_metric=True)
    newest = metric_answers.newest(signal)
    if len(newest) > MAX_SERIES:
        reason = f"has {len(newest)} series in this range, more than {MAX_SERIES}"
        raise BadQuestionError("metric", signal.metric, reason, "Narrow them with match=label=value")
    if newest:
        drawn = metric_answers.drawn(signal, [each.info for each in newest], (parameters.step_s or 0) * SECOND_NS)
    else:
        drawn = Drawn(signal.shown or "value", 0, [])
    recorded = exemplars.exemplars_of(signal)
    return {
        "metric": signal.metric,
        "as": drawn.shown,
        "step_s": drawn.step_ns // SECOND_NS,
        "rolled_up": drawn.rolled,
        "series": [
            SimpleNamespace(
                info=line.info,
                points=[
                    {"start_ns": start, "value": step.value, "highest": step.most, "resets": step.resets}
                    for start, step in zip(drawn.starts, line.steps, strict=True)
                    if step is not None
                ],
            )
            for line in drawn.lines
        ],
        "exemplars": recorded.shown,
        "exemplar_count": recorded.total,
    }


@router.get("/series/metrics", response=MetricsOut, summary="Which metrics there are")
def metrics(request: HttpRequest, parameters: Query[MetricParameters]) -> dict[str, Any]:
    return {"metrics": metric_answers.metrics(parameters.text or "")}


@router.get("/series/averages", response=ServersOut, summary="Mean queue and compute times that Triton servers count")
def averages(request: HttpRequest, parameters: Query[TargetParameters]) -> dict[str, Any]:
    window = _signal(request).range.window
    return {"servers": [asdict(each) | {"statistic": "average"} for each in metric_answers.server_averages(window)]}


def _signal(request: HttpRequest, *, of_a_metric: bool = False) -> Signal:
    """Raises BadQuestionError."""
    signal = metric_question.parse(dict(request.GET.lists()), time.time_ns())
    if of_a_metric and not signal.metric:
        raise BadQuestionError("metric", "", "is missing", "Name one; GET series/metrics lists them")
    return signal
