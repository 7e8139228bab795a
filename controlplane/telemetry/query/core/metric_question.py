"""A question about a metric, read from URL parameters and written back to them."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from controlplane.telemetry.core.metric_types import Matcher, Operator, SeriesInfo
from controlplane.telemetry.metrics.core.steps import StepValue
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import MATCH, NAME, Parameters, choice, single
from controlplane.telemetry.query.core.question import DEFAULT_FROM, DEFAULT_TO
from controlplane.telemetry.query.core.timerange import TimeRange
from controlplane.telemetry.query.core.timerange import parse as parse_range

Shown = Literal["value", "rate"]
SHOWN = ("value", "rate")
MAX_MATCH_CHARS = 1_000
MAX_MATCHES = 20


@dataclass(frozen=True, slots=True)
class Signal:
    """Which metric's series, in which range. With `shown` None the metric's kind decides: counters are shown as rates."""

    range: TimeRange
    metric: str = ""
    text: str = ""
    matchers: tuple[Matcher, ...] = ()
    shown: Shown | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """The URL parameters of this question, in a stable order."""
        pairs = [("from", self.range.from_text), ("to", self.range.to_text)]
        pairs += [(name, value) for name, value in (("metric", self.metric), ("text", self.text)) if value]
        pairs += [("match", matcher_text(matcher)) for matcher in self.matchers]
        return pairs + ([("as", self.shown)] if self.shown else [])

    def with_series(self, info: SeriesInfo) -> "Signal":
        """The same question of this series alone."""
        return replace(self, matchers=tuple(Matcher(name, "=", value) for name, value in sorted(info.labels.items())))


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """A series cut into steps."""

    info: SeriesInfo
    steps: list[StepValue | None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Series in steps of `step_ns` that begin at `starts`. `rolled`: out of rollups of five minutes, but for the last hour."""

    shown: Shown
    step_ns: int
    starts: list[int]
    lines: list[DrawnSeries] = field(default_factory=list)
    rolled: bool = False


def matcher_text(matcher: Matcher) -> str:
    return f"{matcher.label}{matcher.operator}{matcher.value}"


def parse(parameters: Parameters, now_ns: int) -> Signal:
    """Raises BadQuestionError."""
    matches = [text for text in parameters.get("match", ()) if text]
    if len(matches) > MAX_MATCHES:
        raise BadQuestionError("match", matches[0], f"is one of {len(matches)}", f"Give at most {MAX_MATCHES}")
    shown = choice(parameters, "as", ("", *SHOWN), "")
    return Signal(
        parse_range(single(parameters, "from", DEFAULT_FROM), single(parameters, "to", DEFAULT_TO), now_ns),
        _text(parameters, "metric"),
        _text(parameters, "text"),
        tuple(_matcher(text) for text in matches),
        cast(Shown, shown) if shown else None,
    )


def _text(parameters: Parameters, name: str) -> str:
    text = single(parameters, name, "").strip()
    if text and not NAME.matches(text):
        raise BadQuestionError(name, text, "is not a name", NAME.remedy)
    return text


def _matcher(text: str) -> Matcher:
    match = re.fullmatch(MATCH.pattern, text)
    if match is None or len(text) > MAX_MATCH_CHARS:
        raise BadQuestionError(
            "match", text, "is no condition on a label", "Write label=value, label!=value or label=~expression"
        )
    label, operator, value = text[: match.start(1)], match[1], text[match.end(1) :]
    if operator in ("=~", "!~"):
        try:
            re.compile(value)
        except re.error as error:
            raise BadQuestionError(
                "match", text, f"is not a regular expression ({error})", "Write one, or label=value"
            ) from None
    return Matcher(label, cast(Operator, operator), value)
