"""`GET targets`, `GET series` and its parts: received metrics, and the targets that they come from."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from controlplane.api.formats import TIME, Finite, Instant, Match, Name, NsAsMs
from controlplane.telemetry.core.metric_types import Newest
from controlplane.telemetry.query import metric_answers
from controlplane.telemetry.query.core import metric_question
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.metric_question import MAX_MATCHES, Drawn, Shown, Signal
from controlplane.telemetry.query.core.question import DEFAULT_FROM, DEFAULT_TO
from controlplane.telemetry.query.core.timerange import SECOND_NS
from controlplane.telemetry.query.metric_answers import TargetStateNow

router = Router(tags=["metrics"])
MAX_SERIES = 50


def age_s(time_ns: int) -> float:
    return max(0.0, (time.time_ns() - time_ns) / SECOND_NS)


class TargetParameters(Schema):
    """The range of scrapes: a target that was not scraped in it is left out."""

    from_: Instant = Field(DEFAULT_FROM, alias="from", description=TIME)
    to: Instant = Field(DEFAULT_TO, description=TIME)


class SignalParameters(TargetParameters):
    """A metric's series; conditions on labels are joined by and."""

    metric: Name = Field(description="Its name, as it was sent")
    match: list[Match] = Field(
        [],
        max_length=MAX_MATCHES,
        description="`label=value`, `label!=value`, `label=~expression` or `label!~expression`",
    )


class PointParameters(SignalParameters):
    as_: Shown | None = Field(
        None, alias="as", description="By default, counters are rates per second, and gauges values"
    )
    step_s: int | None = Field(
        None, ge=1, le=86_400, description="Least seconds a point covers; it is longer where samples are further apart."
    )


class MetricParameters(Schema):
    text: Name | None = Field(None, description="Words in the name, in any case")


class TargetOut(Schema):
    """A target's newest scrape. `stale`: it has not been tried for three of its intervals. `former`: nor will it be, because others are."""

    job: str
    instance: str
    url: str
    state: TargetStateNow
    since_ns: int = Field(description="Up or down since, as far back as the range goes")
    scraped_ns: int = Field(validation_alias="time_ns")
    age_s: float
    duration_ms: NsAsMs = Field(validation_alias="duration_ns")
    samples: int
    error: str

    @staticmethod
    def resolve_age_s(target: Mapping[str, Any]) -> float:
        return age_s(target["time_ns"])


class TargetEventOut(Schema):
    time_ns: int
    job: str
    instance: str
    up: bool
    error: str


class TargetsOut(Schema):
    from_ns: int
    to_ns: int
    targets: list[TargetOut]
    events: list[TargetEventOut] = Field(description="When targets went down and came back, the newest first")


class SignalIdentityOut(Schema):
    labels: dict[str, str] = Field(validation_alias="info.labels")
    kind: str = Field(validation_alias="info.kind", description="counter, gauge or unknown")
    unit: str = Field(validation_alias="info.unit")


class SignalOut(SignalIdentityOut):
    """A series' newest value in the range. `ended`: the series has no value now."""

    value: Finite = Field(description="Null where it is infinite")
    time_ns: int
    age_s: float
    ended: bool
    samples: int

    @staticmethod
    def resolve_age_s(series: Newest) -> float:
        return age_s(series.time_ns)


class SignalsOut(Schema):
    metric: str
    series: list[SignalOut]


class SignalPointOut(Schema):
    start_ns: int
    value: Finite
    highest: Finite = Field(description="The highest sample of the step; null where points are not `rolled_up`")
    resets: int = Field(description="How often the counter was reset in this step")


class SignalPointsOut(SignalIdentityOut):
    points: list[SignalPointOut] = Field(description="Steps without samples are left out")


class PointsOut(Schema):
    metric: str
    as_: Shown = Field(alias="as")
    step_s: int
    rolled_up: bool = Field(
        description="Whether points are of rollups by five minutes (but for the last hour), as of gauges of load over more than 6 hours"
    )
    series: list[SignalPointsOut]


class MetricOut(Schema):
    metric: str
    kind: str
    unit: str
    series: int


class MetricsOut(Schema):
    metrics: list[MetricOut] = Field(description="At most 200, by name")


@router.get(
    "/targets", response=TargetsOut, summary="Targets that are scraped: up, down, stale or former, and since when"
)
def targets(request: HttpRequest, parameters: Query[TargetParameters]) -> dict[str, Any]:
    window = _signal(request).range.window
    scraped = metric_answers.targets(window)
    states = metric_answers.target_states(scraped, time.time_ns())
    return {
        "from_ns": window.from_ns,
        "to_ns": window.to_ns,
        "targets": [{**asdict(target), "state": state} for target, state in zip(scraped, states, strict=True)],
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
    summary="A metric's series over time: counters as rates",
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
    }


@router.get("/series/metrics", response=MetricsOut, summary="Which metrics there are")
def metrics(request: HttpRequest, parameters: Query[MetricParameters]) -> dict[str, Any]:
    return {"metrics": metric_answers.metrics(parameters.text or "")}


def _signal(request: HttpRequest, *, of_a_metric: bool = False) -> Signal:
    """Raises BadQuestionError."""
    signal = metric_question.parse(dict(request.GET.lists()), time.time_ns())
    if of_a_metric and not signal.metric:
        raise BadQuestionError("metric", "", "is missing", "Name one; GET series/metrics lists them")
    return signal
