"""Questions about metrics and the targets they come from, read from URL parameters and written back to them, and their answers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, cast

import numpy as np

from controlplane.telemetry.ask import answers
from controlplane.telemetry.ask.errors import BadQuestion, has_control_characters
from controlplane.telemetry.ask.question import DEFAULT_FROM, DEFAULT_TO, Parameters, choice, one
from controlplane.telemetry.ask.timerange import SECOND_NS, STEPS_S, TimeRange, step_ns
from controlplane.telemetry.ask.timerange import parse as parse_range
from controlplane.telemetry.metrics.steps import Step, fitting, interval_ns, means, rates
from controlplane.telemetry.metrics.triton import METRICS, ServerAverages, by_server
from controlplane.telemetry.store import StoreError, StoreInputError
from controlplane.telemetry.store.metrics import (
    Matcher,
    MetricInfo,
    Newest,
    Operator,
    SeriesInfo,
    TargetEvent,
    TargetState,
)
from controlplane.telemetry.store.types import Window

T = TypeVar("T")
Shown = Literal["value", "rate"]
SHOWN = ("value", "rate")
LONGEST_TEXT, LONGEST_MATCH = 200, 1_000
MOST_MATCHES = 20
MISSED = 3
"""A target that has not been tried for so many of its intervals is stale: nobody looks any more."""
STALE_S = 60.0  # of one whose interval is not known
BAD_EXPRESSION = 427
"""ClickHouse's CANNOT_COMPILE_REGEXP."""

_MATCH = re.compile(r"([^=!~\s]{1,512})(=~|!~|!=|=)(.*)")


@dataclass(frozen=True, slots=True)
class Signal:
    """Which metric's series, in which range. `shown` is None where the metric's kind decides: counters as rates."""

    range: TimeRange
    metric: str = ""
    text: str = ""
    matchers: tuple[Matcher, ...] = ()
    shown: Shown | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """The parameters that ask this again, in a stable order."""
        found = [("from", self.range.from_text), ("to", self.range.to_text)]
        found += [(name, value) for name, value in (("metric", self.metric), ("text", self.text)) if value]
        found += [("match", written(matcher)) for matcher in self.matchers]
        return found + ([("as", self.shown)] if self.shown else [])

    def of(self, metric: str) -> "Signal":
        return replace(self, metric=metric, matchers=(), shown=None)

    def only(self, info: SeriesInfo) -> "Signal":
        """That series alone."""
        return replace(self, matchers=tuple(Matcher(name, "=", value) for name, value in sorted(info.labels.items())))


@dataclass(frozen=True, slots=True)
class Line:
    """A series cut into steps."""

    info: SeriesInfo
    steps: list[Step | None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Series in steps of `step_ns` that begin at `starts`."""

    shown: Shown
    step_ns: int
    starts: list[int]
    lines: list[Line] = field(default_factory=list)


def written(matcher: Matcher) -> str:
    return f"{matcher.label}{matcher.operator}{matcher.value}"


def parse(parameters: Parameters, now_ns: int) -> Signal:
    """Raises BadQuestion."""
    matches = [text for text in parameters.get("match", ()) if text]
    if len(matches) > MOST_MATCHES:
        raise BadQuestion("match", matches[0], f"is one of {len(matches)}", f"Give at most {MOST_MATCHES}")
    shown = choice(parameters, "as", ("", *SHOWN), "")
    return Signal(
        parse_range(one(parameters, "from", DEFAULT_FROM), one(parameters, "to", DEFAULT_TO), now_ns),
        _text(parameters, "metric"),
        _text(parameters, "text"),
        tuple(_matcher(text) for text in matches),
        cast(Shown, shown) if shown else None,
    )


def _text(parameters: Parameters, name: str) -> str:
    text = one(parameters, name, "").strip()
    if len(text) > LONGEST_TEXT or has_control_characters(text):
        raise BadQuestion(
            name, text, "is not a name", f"Give text without control characters, of at most {LONGEST_TEXT} characters"
        )
    return text


def _matcher(text: str) -> Matcher:
    found = _MATCH.fullmatch(text)
    if found is None or len(text) > LONGEST_MATCH or has_control_characters(text):
        raise BadQuestion(
            "match", text, "is no condition on a label", "Write label=value, label!=value or label=~expression"
        )
    label, operator, value = found.groups()
    if operator in ("=~", "!~"):
        try:
            re.compile(value)
        except re.error as error:
            raise BadQuestion(
                "match", text, f"is not a regular expression ({error})", "Write one, or label=value"
            ) from None
    return Matcher(label, cast(Operator, operator), value)


def metrics(text: str) -> list[MetricInfo]:
    return answers.store().metrics_found(text)


def newest(signal: Signal) -> list[Newest]:
    """The series of the metric that have a value in the range: those with the greatest first, those that ended last."""
    found = _asked(
        signal, lambda: answers.store().newest_of(signal.metric, _since(signal.range.window), signal.matchers)
    )
    return sorted(found, key=lambda each: (each.ended, -each.value, sorted(each.info.labels.items())))


def drawn(signal: Signal, series: Sequence[SeriesInfo], least_step_ns: int = 0) -> Drawn:
    """These series of the metric in steps. Deltas, which have no value of their own, are rates whatever is asked."""
    counter = any(info.kind == "counter" for info in series)
    shown: Shown = "rate" if any(info.delta for info in series) else signal.shown or ("rate" if counter else "value")
    window, step = signal.range.window, step_ns(signal.range.window)
    found = _asked(
        signal, lambda: answers.store().samples_of(signal.metric, series, window, before_ns=max(step, 120 * SECOND_NS))
    )
    intervals = [each for one in found if (each := interval_ns(one.times)) is not None]
    step = fitting(max(step, least_step_ns), [seconds * SECOND_NS for seconds in STEPS_S], intervals)
    starts = list(range(window.from_ns - window.from_ns % step, window.to_ns, step))
    edges = np.array([*starts, starts[-1] + step], np.int64)
    cut = {
        one.info.series: rates(one.times, one.values, one.starts, edges, delta=one.info.delta)
        if shown == "rate"
        else means(one.times, one.values, edges)
        for one in found
    }
    nothing: list[Step | None] = [None] * len(starts)
    return Drawn(shown, step, starts, [Line(info, cut.get(info.series, nothing)) for info in series])


def targets(window: Window) -> list[TargetState]:
    return answers.store().targets(window)


def events(window: Window) -> list[TargetEvent]:
    """The newest first."""
    return answers.store().target_events(window)[::-1]


def target_state(target: TargetState, age_s: float) -> Literal["up", "down", "stale"]:
    """What a target is now, tried last `age_s` ago: one that nobody has tried for a while is neither up nor down."""
    patience_s = STALE_S if target.interval_ns is None else MISSED * target.interval_ns / 1e9 + 5
    if age_s > patience_s:
        return "stale"
    return "up" if target.up else "down"


def server_averages(window: Window) -> list[ServerAverages]:
    """Of Tritons whose metrics came in: mean queue and compute per request, by server and model."""
    return by_server(answers.store().counter_growth(METRICS, window))


def _since(window: Window) -> Window:
    """A minute more: what is scraped more seldom than the range is long shall not be missing."""
    return Window(max(0, window.from_ns - 60 * SECOND_NS), window.to_ns)


def _asked(signal: Signal, ask: Callable[[], T]) -> T:
    """What the store refuses of the question, in the question's terms. Raises BadQuestion."""
    try:
        return ask()
    except StoreInputError as error:
        raise BadQuestion("metric", signal.metric, str(error), "Narrow the labels by match, or the range") from None
    except StoreError as error:
        if error.code != BAD_EXPRESSION:
            raise
        texts = [written(matcher) for matcher in signal.matchers if "~" in matcher.operator]
        raise BadQuestion(
            "match", texts[0], "is not a regular expression that RE2 knows", "Leave out look-arounds"
        ) from None
