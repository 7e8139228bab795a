"""Compares the requests of a question with those of an earlier time or of another slice: in words, by stage and by segment.

Means add up, quantiles do not: what a stage or a segment makes of the difference is a part of the difference of the mean E2E.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.headline import FEW_REQUESTS
from controlplane.dashboard.core.palette import BANDS
from controlplane.dashboard.core.zone import moment, said
from controlplane.telemetry.core.query_types import Dimension, Group, LatencyReport, Totals, Window
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import NAME, Parameters, single
from controlplane.telemetry.query.core.question import DIMENSIONS, UNKNOWN, Question
from controlplane.telemetry.query.core.timerange import SECOND_NS, fixed, instant_ns, shifted

DAY_NS = 86_400 * SECOND_NS
EARLIER: Mapping[str, tuple[str, int | None]] = {
    "previous": ("the time just before", None),
    "yesterday": ("a day earlier", DAY_NS),
    "last-week": ("a week earlier", 7 * DAY_NS),
}
"""By value of `compare`: in words, and how far back; None is the length of the range."""
REMEDY = f"Write {', '.join(EARLIER)}, a slice such as model=chat-small, or the time at which the other range begins"
SAME = 0.05
"""A value within this share of the other is about the same."""
NAMED = 0.25
"""A part is named in words from this share of the difference on."""
MAX_NAMED = 2


@dataclass(frozen=True, slots=True)
class Other:
    """What a question is compared with. `text` is as in the URL; `later_ns`: how much later the question's own range begins."""

    text: str
    words: str
    question: Question
    later_ns: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What a stage or a segment makes of the difference of the mean E2E, ms. Means are None where there were no such requests."""

    name: str
    now_ms: float | None
    then_ms: float | None
    change_ms: float


@dataclass(frozen=True, slots=True)
class Segment(Part):
    """`own_ms` of the change is because its requests took longer, `mix_ms` because there were more or fewer of them."""

    own_ms: float
    mix_ms: float
    share_now: float
    share_then: float


def parse(parameters: Parameters, question: Question, now_ns: int) -> Other | None:
    """`compare`: a time before, a slice (`model=chat-small`), or the time at which the other range begins. Raises BadQuestionError."""
    text = single(parameters, "compare", "")
    if not text:
        return None
    if text in EARLIER:
        words, back_ns = EARLIER[text]
        back_ns = question.range.length_ns if back_ns is None else back_ns
        return Other(text, words, question.with_range(shifted(question.range, back_ns)), back_ns)
    name, equals, value = text.partition("=")
    dimension: Dimension | None = next((known for known in DIMENSIONS if known == name), None)
    if dimension and equals and NAME.matches(value):
        other = question.with_filter(dimension, "" if value == UNKNOWN else value)
        return Other(text, f"{dimension.replace('_', ' ')} {value}", other)
    try:
        from_ns = instant_ns("compare", text, now_ns)
    except BadQuestionError:
        raise BadQuestionError("compare", text, "is nothing to compare with", REMEDY) from None
    window = Window(from_ns, from_ns + question.range.length_ns)
    began = f"the range that began {moment(from_ns).partition('.')[0]} {said()}"
    return Other(text, began, question.with_range(fixed(window)), question.range.window.from_ns - from_ns)


def by_stage(now: LatencyReport, then: LatencyReport) -> list[Part]:
    """The changes add up to that of the mean E2E. A stage that one side lacks took no time there."""
    parts = []
    for stage in BANDS:
        at_now, at_then = (report.stages[stage].mean_ms if stage in report.stages else 0.0 for report in (now, then))
        if at_now or at_then:
            shown = (
                None if report.known(stage) == "not measured" else mean
                for report, mean in ((now, at_now), (then, at_then))
            )
            parts.append(Part(stage, next(shown), next(shown), at_now - at_then))
    return parts


def mean_ms(report: LatencyReport | Group) -> float:
    """Of the answered requests' E2E: the sum of all stages' means."""
    return sum(stage.mean_ms for stage in report.stages.values())


def by_segment(now: Mapping[str, Group], then: Mapping[str, Group]) -> list[Segment]:
    """By value of a dimension, those that change most first; the changes add up to that of the mean E2E.

    With w the share of a segment's requests and m their mean, its part is w̄ Δm (its own change) + Δw (m̄ - M̄) (the mix), where a bar is
    the mean of both sides, and M the mean of all: the shift-share of Marshall and Edgeworth. One that is on one side alone is all mix.
    """
    sides = [{name: group for name, group in side.items() if group.answered} for side in (now, then)]
    totals = [sum(group.answered for group in side.values()) for side in sides]
    if not all(totals):
        return []
    means = [{name: mean_ms(group) for name, group in side.items()} for side in sides]
    shares = [
        {name: group.answered / total for name, group in side.items()}
        for side, total in zip(sides, totals, strict=True)
    ]
    middle = sum(shares[side][name] * mean for side in (0, 1) for name, mean in means[side].items()) / 2
    segments = []
    for name in {**sides[0], **sides[1]}:
        own_now, own_then = means[0].get(name), means[1].get(name)
        before, after = shares[1].get(name, 0.0), shares[0].get(name, 0.0)
        at_now = own_now if own_now is not None else own_then or 0.0
        at_then = own_then if own_then is not None else own_now or 0.0
        own = (after + before) / 2 * (at_now - at_then)
        mix = (after - before) * ((at_now + at_then) / 2 - middle)
        segments.append(Segment(name, own_now, own_then, own + mix, own, mix, after, before))
    return sorted(segments, key=lambda segment: (-abs(segment.change_ms), segment.name))


def instead(now_ms: float, then_ms: float, words: str, name: str) -> str:
    """`p95 is 412 ms, 132 ms (47 %) more than a day earlier.`"""
    return f"{name} is {PAGE.ms(now_ms)}, {_against(now_ms, then_ms, words, PAGE.ms, 'less')}."


def counted(
    now: Totals | LatencyReport, then: Totals | LatencyReport, words: str, name: str, *, whole: bool
) -> list[str]:
    """What both sides counted, in words. `whole`: both are known from end to end, so that their numbers can be compared."""
    if not (now.requests and then.requests):
        return [f"Of {words if now.requests else 'this range'} no request is known: there is nothing to compare."]
    failed = [PAGE.share(each.errors / each.requests) for each in (now, then)]
    more = f", {_against(now.requests, then.requests, words, PAGE.count, 'fewer')}" if whole else ""
    said = [
        f"{PAGE.counted(now.requests, 'request')}{more}.",
        f"{failed[0]} failed, {'as then' if failed[0] == failed[1] else f'instead of {failed[1]}'}.",
    ]
    if now.e2e_ms and then.e2e_ms:
        said.append(instead(getattr(now.e2e_ms, name), getattr(then.e2e_ms, name), words, name))
    return said


def _against(now: float, then: float, words: str, write: Callable[[Any], str], fewer: str) -> str:
    if abs(now - then) <= SAME * then:
        return f"about the same as {words} ({write(then)})"
    ratio = f" ({PAGE.share(abs(now - then) / then)})" if then else ""
    return f"{write(abs(now - then))}{ratio} {'more' if now > then else fewer} than {words} ({write(then)})"


def because(now: LatencyReport, then: LatencyReport, segments: Sequence[Segment], by: str) -> str:
    """Which stages and which segment make the difference of the mean; empty where the mean is about the same."""
    whole = mean_ms(now) - mean_ms(then)
    if not whole or abs(whole) <= SAME * mean_ms(then):
        return ""
    stages = _largest(by_stage(now, then), whole)
    sentence = f"A request takes {PAGE.ms(abs(whole))} {'more' if whole > 0 else 'less'} on average"
    if stages:
        sentence += f", {' and '.join(f'{PAGE.ms(abs(part.change_ms))} of it in {part.name}' for part in stages)}"
    sentence += "."
    segment = next(iter(_largest(segments, whole)), None) if len(segments) > 1 else None
    if segment is None:
        return sentence
    if abs(segment.own_ms) >= abs(segment.mix_ms):
        return f"{sentence} Most of the difference is {by} {segment.name or UNKNOWN}, whose own requests changed."
    return (
        f"{sentence} Most of the difference is that {PAGE.share(segment.share_now)} instead of {PAGE.share(segment.share_then)} of the"
        f" requests are of {by} {segment.name or UNKNOWN}."
    )


P = TypeVar("P", bound=Part)


def _largest(parts: Sequence[P], whole: float) -> list[P]:
    """Those that make a good part of the difference, in its direction, the largest first."""
    made = [part for part in parts if part.change_ms / whole >= NAMED]
    return sorted(made, key=lambda part: -abs(part.change_ms))[:MAX_NAMED]


def few(now: Totals | LatencyReport, then: Totals | LatencyReport) -> bool:
    """Whether one side has so few answered requests that a quantile is one request, not a trend."""
    return min(now.answered, then.answered) < FEW_REQUESTS
