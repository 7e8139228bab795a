"""A question about a metric, read from URL parameters and written back to them. Pure."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from controlplane.telemetry.core.metric_types import Matcher, Operator, SeriesInfo
from controlplane.telemetry.metrics.steps import Step
from controlplane.telemetry.query.core.errors import BadQuestionError, has_control_characters
from controlplane.telemetry.query.core.question import DEFAULT_FROM, DEFAULT_TO, Parameters, choice, one
from controlplane.telemetry.query.core.timerange import TimeRange
from controlplane.telemetry.query.core.timerange import parse as parse_range

Shown = Literal["value", "rate"]


SHOWN = ("value", "rate")


LONGEST_TEXT = 200


LONGEST_MATCH = 1_000


MOST_MATCHES = 20


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
    """Raises BadQuestionError."""
    matches = [text for text in parameters.get("match", ()) if text]
    if len(matches) > MOST_MATCHES:
        raise BadQuestionError("match", matches[0], f"is one of {len(matches)}", f"Give at most {MOST_MATCHES}")
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
        raise BadQuestionError(
            name, text, "is not a name", f"Give text without control characters, of at most {LONGEST_TEXT} characters"
        )
    return text


def _matcher(text: str) -> Matcher:
    found = _MATCH.fullmatch(text)
    if found is None or len(text) > LONGEST_MATCH or has_control_characters(text):
        raise BadQuestionError(
            "match", text, "is no condition on a label", "Write label=value, label!=value or label=~expression"
        )
    label, operator, value = found.groups()
    if operator in ("=~", "!~"):
        try:
            re.compile(value)
        except re.error as error:
            raise BadQuestionError(
                "match", text, f"is not a regular expression ({error})", "Write one, or label=value"
            ) from None
    return Matcher(label, cast(Operator, operator), value)
