"""`GET targets`, `GET series` and its parts: received metrics, and the targets that they come from."""

import math
import time
from dataclasses import asdict
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
from controlplane.telemetry.core.metric_types import SeriesInfo, TargetState
from controlplane.telemetry.query import exemplars, signals
from controlplane.telemetry.query.core import metric_question
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.metric_question import Signal
from controlplane.telemetry.query.core.timerange import SECOND_NS

router = Router(tags=["metrics"])
MAX_SERIES = 50


@router.get("/targets", response=TargetsOut, summary="Targets that are scraped: up, down or stale, and since when")
def targets(request: HttpRequest, parameters: Query[TargetParameters]) -> dict[str, Any]:
    signal, now_ns = _signal(request)
    window = signal.range.window
    return {
        "from_ns": window.from_ns,
        "to_ns": window.to_ns,
        "targets": [_target_out(each, now_ns) for each in signals.targets(window)],
        "events": [
            {"time_ns": each.time_ns, "job": each.job, "instance": each.instance, "up": each.up, "error": each.error}
            for each in signals.events(window)
        ],
    }


@router.get("/series", response=SignalsOut, summary="A metric's series, with the newest value of each and its age")
def series(request: HttpRequest, parameters: Query[SignalParameters]) -> dict[str, Any]:
    signal, now_ns = _named(request)
    return {
        "metric": signal.metric,
        "series": [
            {
                **_identity(each.info),
                "value": _finite(each.value),
                "time_ns": each.time_ns,
                "age_s": max(0.0, (now_ns - each.time_ns) / SECOND_NS),
                "ended": each.ended,
                "samples": each.samples,
            }
            for each in signals.newest(signal)
        ],
    }


@router.get(
    "/series/points",
    response=PointsOut,
    by_alias=True,
    summary="A metric's series over time: counters as rates; and exemplars, which lead to traces",
)
def points(request: HttpRequest, parameters: Query[PointParameters]) -> dict[str, Any]:
    signal, _ = _named(request)
    newest = signals.newest(signal)
    if len(newest) > MAX_SERIES:
        reason = f"has {len(newest)} series in this range, more than {MAX_SERIES}"
        raise BadQuestionError("metric", signal.metric, reason, "Narrow them with match=label=value")
    if not newest:
        nothing = {
            "metric": signal.metric,
            "as": signal.shown or "value",
            "step_s": 0,
            "rolled_up": False,
            "series": [],
        }
        return nothing | _exemplars(signal)
    drawn = signals.drawn(signal, [each.info for each in newest], (parameters.step_s or 0) * SECOND_NS)
    return {
        "metric": signal.metric,
        "as": drawn.shown,
        "step_s": drawn.step_ns // SECOND_NS,
        "rolled_up": drawn.rolled,
        "series": [
            {
                **_identity(line.info),
                "points": [
                    {
                        "start_ns": start,
                        "value": _finite(step.value),
                        "highest": None if step.most is None else _finite(step.most),
                        "resets": step.resets,
                    }
                    for start, step in zip(drawn.starts, line.steps, strict=True)
                    if step is not None
                ],
            }
            for line in drawn.lines
        ],
        **_exemplars(signal),
    }


def _exemplars(signal: Signal) -> dict[str, Any]:
    recorded = exemplars.exemplars_of(signal)
    return {
        "exemplars": [
            {
                **_identity(each.info),
                "metric": each.info.metric,
                "time_ns": each.time_ns,
                "value": each.value,
                "trace_id": each.trace_id,
                "span_id": each.span_id or None,
            }
            for each in recorded.shown
        ],
        "exemplar_count": recorded.total,
    }


@router.get("/series/metrics", response=MetricsOut, summary="Which metrics there are")
def metrics(request: HttpRequest, parameters: Query[MetricParameters]) -> dict[str, Any]:
    rows = signals.metrics(parameters.text or "")
    return {
        "metrics": [
            {"metric": each.metric, "kind": each.kind, "unit": each.unit, "series": each.series} for each in rows
        ]
    }


@router.get("/series/averages", response=ServersOut, summary="Mean queue and compute times that Triton servers count")
def averages(request: HttpRequest, parameters: Query[TargetParameters]) -> dict[str, Any]:
    signal, _ = _signal(request)
    return {
        "servers": [
            {"instance": each.instance, "model": each.model, **asdict(each.averages)}
            for each in signals.server_averages(signal.range.window)
        ]
    }


def _signal(request: HttpRequest) -> tuple[Signal, int]:
    now_ns = time.time_ns()
    return metric_question.parse(dict(request.GET.lists()), now_ns), now_ns


def _named(request: HttpRequest) -> tuple[Signal, int]:
    signal, now_ns = _signal(request)
    if not signal.metric:
        raise BadQuestionError("metric", "", "is missing", "Name one; GET series/metrics lists them")
    return signal, now_ns


def _target_out(target: TargetState, now_ns: int) -> dict[str, Any]:
    age_s = max(0.0, (now_ns - target.time_ns) / SECOND_NS)
    return {
        "job": target.job,
        "instance": target.instance,
        "url": target.url,
        "state": signals.target_state(target, age_s),
        "since_ns": target.since_ns,
        "scraped_ns": target.time_ns,
        "age_s": age_s,
        "duration_ms": target.duration_ns / 1e6,
        "samples": target.samples,
        "error": target.error,
    }


def _identity(info: SeriesInfo) -> dict[str, Any]:
    return {"labels": dict(info.labels), "kind": info.kind, "unit": info.unit}


def _finite(value: float) -> float | None:
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None
