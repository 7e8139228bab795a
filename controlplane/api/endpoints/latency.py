"""`GET latency` and `GET latency/series`: time by stage, as one report or over time.

Units are in the names: `_ms` is milliseconds, `_ns` nanoseconds.
"""

from dataclasses import asdict, fields
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from controlplane.api.filters import RequestFilters, question_of
from controlplane.api.formats import Rounded
from controlplane.telemetry.core.query_types import Dimension, LatencyReport, StageFigures
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS

router = Router(tags=["latency"])
MAX_POINTS = 2000
SAME = ("requests", "answered", "errors", "cancelled", "unmeasured", "e2e_ms", "newest_ns", "exact")
"""What a report is answered with as it is."""
FIGURES = tuple(field.name for field in fields(StageFigures))


class LatencyParameters(RequestFilters):
    group_by: Dimension | None = Field(
        None,
        description="Adds `groups`, a report for each value of a dimension. By `replica`: that of the last attempt.",
    )


class SeriesParameters(RequestFilters):
    step_s: int | None = Field(None, ge=1, le=86_400, description="Seconds a point covers; by default about 60 points.")


class QuantilesOut(Schema):
    p50: Rounded
    p95: Rounded
    p99: Rounded


class TtftOut(QuantilesOut):
    definition: str


class TtftByDefinitionOut(QuantilesOut):
    requests: int


class StageOut(Schema):
    """Figures are null where nothing of the stage was measured, which is not zero: see `unmeasured`."""

    p50_ms: Rounded | None
    p95_ms: Rounded | None
    p99_ms: Rounded | None
    mean_ms: Rounded | None
    share: Rounded | None = Field(
        description="Of all time of all answered requests, 0..1; all stages and `unattributed_share` sum to 1"
    )
    share_above_median: Rounded | None = Field(
        description="Of the time by which requests above the median exceed the median request"
    )
    lower_bound: bool = Field(
        description="Whether the times and `share` are lower bounds: the part at servers whose spans are missing was not measured, and "
        "counts for `model`. `share_above_median` is then that of the measured part"
    )


class ReportOut(Schema):
    """Quantiles over the chosen requests that were answered (status `ok`); null where none was. Different definitions of TTFT
    are never merged."""

    requests: int = Field(description="`answered`, `errors` and `cancelled` together")
    answered: int
    errors: int
    cancelled: int
    unmeasured: int = Field(
        description="Answered requests of which a server's spans are missing: their queue and network times are part of `model`, "
        "and the figures of these two stages are lower bounds (`lower_bound`) or null"
    )
    e2e_ms: QuantilesOut | None
    ttft_ms: TtftOut | None = Field(description="Of the most frequent definition")
    ttft_ms_by_definition: dict[str, TtftByDefinitionOut]
    stages: dict[str, StageOut]
    unattributed_share: Rounded | None
    unattributed_share_above_median: Rounded | None
    newest_ns: int | None = Field(description="When the newest of them ended, ns since the epoch")
    exact: bool = Field(
        description="Whether times are exact. Ranges of more than 6 hours are answered out of rollups: times are within 0.5 %, counts exact"
    )


class FailureOut(Schema):
    """Requests that failed for one reason. `error_type` and `error_stage` are empty where the spans do not have them."""

    status: str = Field(description="error or rejected")
    error_type: str
    http_status: int | None
    error_stage: str
    requests: int
    p50_ms: float = Field(description="Median time until they failed")
    newest_ns: int = Field(description="When the newest of them ended, ns since the epoch")


class LatencyOut(ReportOut):
    from_ns: int
    to_ns: int
    failures: list[FailureOut] = Field(description="Why requests failed, the most frequent reason first; at most 50")
    group_by: str | None = None
    groups: dict[str, ReportOut] | None = None


class PointOut(Schema):
    start_ns: int
    requests: int
    errors: int
    cancelled: int
    e2e_ms: QuantilesOut | None = Field(description="Of the answered requests; null where none was")
    ttft_ms: dict[str, QuantilesOut]
    stack_ms: dict[str, dict[str, Rounded]] = Field(
        description="By quantile, by stage: means of the requests around that quantile, which add up to their E2E"
    )


class SeriesOut(Schema):
    """Points in order of time; steps without requests are absent."""

    from_ns: int
    to_ns: int
    step_ns: int
    exact: bool = Field(description="As of a report")
    points: list[PointOut]


@router.get("", response=LatencyOut, summary="Quantiles and shares by stage")
def latency(request: HttpRequest, parameters: Query[LatencyParameters]) -> dict[str, Any]:
    wanted = question_of(request)
    question = answers.stored(wanted) if parameters.group_by else answers.rounded(wanted)
    rolled = answers.rolled(question, 0)
    if rolled is None:
        question = answers.stored(wanted)
    report = answers.report(question, rolled)
    failed = answers.failures(question) if report.errors else []
    answer: dict[str, Any] = {
        **report_out(answers.with_failures(report, failed, question)),
        "failures": failed,
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
    wanted = question_of(request)
    question = answers.rounded(wanted)
    step = parameters.step_s * SECOND_NS if parameters.step_s else answers.step_ns(question)
    if question.range.length_ns // step > MAX_POINTS:
        longer = -(-question.range.length_ns // SECOND_NS // MAX_POINTS)
        raise BadQuestionError(
            "step_s", str(parameters.step_s), f"makes more than {MAX_POINTS} points", f"Use {longer} or more"
        )
    if step % (kept_s := answers.kept_s(question) * SECOND_NS):
        remedy = f"Use {kept_s // SECOND_NS} or a multiple of it, leave it out, or ask for a later time"
        raise BadQuestionError(
            "step_s", str(parameters.step_s), "is not a step in which this time is still kept", remedy
        )
    rolled = answers.rolled(question, step)
    if rolled is None:
        question = answers.stored(wanted)
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
