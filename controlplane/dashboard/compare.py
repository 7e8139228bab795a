"""Asks what a screen is compared with, and prepares the difference for it."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core import comparison
from controlplane.dashboard.core.comparison import EARLIER, Other
from controlplane.dashboard.core.figures.latency import OtherLine
from controlplane.dashboard.core.screen import Screen
from controlplane.dashboard.history import groups_of
from controlplane.telemetry.core.query_types import Dimension, Group, LatencyPoint, LatencyReport, Totals
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.parameters import Parameters
from controlplane.telemetry.query.core.question import Question

MAX_SEGMENTS = 8
LABELS = {"previous": "period before", "yesterday": "yesterday", "last-week": "last week"}


@dataclass(frozen=True, slots=True)
class OtherSide:
    """The other side's figures, while the screen's own are read."""

    other: Other
    groups_of: str  # which time the groups are of, where that is another one
    report: Future[LatencyReport]
    groups: Future[dict[str, Group]]
    points: Future[list[LatencyPoint]]


@dataclass(frozen=True, slots=True)
class BesideTotals:
    """What the other side counted, while the screen's own figures are read."""

    other: Other
    totals: Future[Totals]


def query_totals(screen: Screen, parameters: Parameters, now_ns: int) -> BesideTotals | None:
    """Of what `compare` asks for. Raises BadQuestionError."""
    other = comparison.parse(parameters, screen.question, now_ns)
    return BesideTotals(other, answers.submit_query(answers.totals, answers.rounded(other.question))) if other else None


def beside_context(
    screen: Screen, beside: BesideTotals | None, now: Totals | LatencyReport, now_ns: int
) -> dict[str, Any]:
    """`comparisons`: what a screen can be compared with; `beside`: the difference in words."""
    if beside is None:
        return {"comparisons": comparisons(screen, None)}
    other, then, name = beside.other, beside.totals.result(), screen.question.quantile
    partial = _partial(screen.question, other, now_ns)
    return {
        "comparisons": comparisons(screen, other),
        "beside": {
            "words": other.words,
            "sentences": comparison.counted(now, then, other.words, name, whole=not partial),
            "few": comparison.few(now, then) and bool(now.e2e_ms and then.e2e_ms),
            "partial": partial,
            "href": f"{screen.path}?{screen.query(other.question, compare='')}",
        },
    }


def query_side(other: Other, by: Dimension) -> OtherSide:
    question = answers.rounded(other.question)
    of_groups = answers.of_groups(question, by)
    return OtherSide(
        other,
        groups_of(question.range.window, of_groups.range.window, by),
        answers.submit_query(answers.report, question),
        answers.submit_query(answers.groups, of_groups, by),
        answers.submit_query(answers.series, question, answers.step_ns(question)),
    )


def line_of(side: OtherSide) -> OtherLine:
    """The other side's points, for the chart."""
    question = answers.rounded(side.other.question)
    return OtherLine(side.other.words, side.points.result(), answers.step_ns(question), side.other.later_ns)


def comparisons(screen: Screen, chosen: Other | None) -> list[dict[str, Any]]:
    """What the screen can be compared with; the chosen one is taken back by its own link."""
    texts = [*EARLIER, *([chosen.text] if chosen and chosen.text not in EARLIER else [])]
    return [
        {"text": LABELS.get(text, text), "current": current, "query": screen.query(compare="" if current else text)}
        for text in texts
        for current in [chosen is not None and chosen.text == text]
    ]


def compare_context(
    side: OtherSide,
    question: Question,
    report: LatencyReport,
    groups: Mapping[str, Group],
    by: Dimension,
    now_ns: int,
    screen: Screen,
) -> dict[str, Any]:
    """`compared`: the difference in words, by stage and by segment."""
    other, then, groups_then = side.other, side.report.result(), side.groups.result()
    segments = comparison.by_segment(groups, groups_then)
    sentences = []
    if report.e2e_ms and then.e2e_ms:
        values = (getattr(each.e2e_ms, question.quantile) for each in (report, then))
        sentences.append(comparison.instead(next(values), next(values), other.words, question.quantile))
        sentences.append(comparison.because(report, then, segments, by.replace("_", " ")))
    else:
        unknown = other.words if report.e2e_ms else "this range"
        sentences.append(f"Of {unknown} no answered request is known: there is nothing to compare.")
    return {
        "compared": {
            "words": other.words,
            "groups_of": side.groups_of,
            "sentences": [sentence for sentence in sentences if sentence],
            "few": comparison.few(report, then) and bool(report.e2e_ms and then.e2e_ms),
            "href": f"{screen.path}?{screen.query(other.question, compare='')}",
            "requests": [report.requests, then.requests],
            "failed": [each.errors / each.requests if each.requests else None for each in (report, then)],
            "means": [comparison.mean_ms(each) if each.e2e_ms else None for each in (report, then)],
            "parts": [_row(part) for part in comparison.by_stage(report, then)] if segments else [],
            "segments": [_row(segment) for segment in segments[:MAX_SEGMENTS]],
            "segments_left_out": max(0, len(segments) - MAX_SEGMENTS),
            "change": _signed(comparison.mean_ms(report) - comparison.mean_ms(then)),
            "exact": report.exact and then.exact,
            "partial": _partial(question, other, now_ns),
        }
    }


def _row(part: comparison.Part) -> dict[str, Any]:
    return {"part": part, "change": _signed(part.change_ms)}


def _signed(ms: float) -> str:
    return f"{'+' if ms > 0 else '−' if ms < 0 else '±'}{PAGE.ms(abs(ms))}"


def _partial(question: Question, other: Other, now_ns: int) -> list[str]:
    """Which sides are only partly known, and how much of them."""
    said = []
    for words, side in (("this range", question), (other.words, other.question)):
        covered_ns = answers.answered_ns(side.range.window, now_ns)
        if covered_ns < 0.99 * side.range.length_ns:
            said.append(
                f"Of {words} the ledger has {PAGE.duration(covered_ns / 1e9)} of {PAGE.duration(side.range.length_ns / 1e9)}"
            )
    return said
