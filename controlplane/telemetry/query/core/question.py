"""A question about latency, read from URL parameters and written back to them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args
from urllib.parse import urlencode

from controlplane.telemetry.core.query_types import Dimension, Filter, Filters
from controlplane.telemetry.ledger.attribute_index import LONGEST_TEXT
from controlplane.telemetry.query.core.errors import BadQuestionError, has_control_characters
from controlplane.telemetry.query.core.timerange import TimeRange
from controlplane.telemetry.query.core.timerange import parse as parse_range

Quantile = Literal["p50", "p95", "p99"]
QUANTILES: tuple[Quantile, ...] = get_args(Quantile)
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
MOST_VALUES = 50
LONGEST_VALUE = 200
MOST_ATTRIBUTES = 10
UNKNOWN = "(unknown)"
"""In URLs: the requests of which the dimension is not known. The store has them as empty."""
DEFAULT_FROM, DEFAULT_TO = "now-15m", "now"
DEFAULT_QUANTILE: Quantile = "p95"

Parameters = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Question:
    range: TimeRange
    filters: Filters
    quantile: Quantile = DEFAULT_QUANTILE

    def pairs(self) -> list[tuple[str, str]]:
        """The parameters that ask this again, in a stable order. Defaults of from and to are written: a URL says what it shows."""
        found = [("from", self.range.from_text), ("to", self.range.to_text)]
        found += [(name, value or UNKNOWN) for name in DIMENSIONS for value in self.filters.get(name, ())]
        found += [("attribute", pair) for pair in self.filters.get("attribute", ())]
        if self.quantile != DEFAULT_QUANTILE:
            found.append(("q", self.quantile))
        return found

    def query(self) -> str:
        return written(self.pairs())

    def but(self, dimension: Filter, *values: str) -> "Question":
        """The same question with one filter replaced; without values, lifted."""
        filters = {name: kept for name, kept in self.filters.items() if name != dimension}
        if values:
            filters[dimension] = values
        return replace(self, filters=filters)

    def at(self, quantile: Quantile) -> "Question":
        return replace(self, quantile=quantile)

    def during(self, time_range: TimeRange) -> "Question":
        return replace(self, range=time_range)


def written(pairs: Sequence[tuple[str, str]]) -> str:
    """Parameters as a query string that people can read: colons of times stay colons."""
    return urlencode(pairs, safe=":")


def parse(parameters: Parameters, now_ns: int) -> Question:
    """Read a question. Unknown parameters are the caller's own. Raises BadQuestionError."""
    return Question(
        range=parse_range(one(parameters, "from", DEFAULT_FROM), one(parameters, "to", DEFAULT_TO), now_ns),
        filters=_filters(parameters),
        quantile=cast(Quantile, choice(parameters, "q", QUANTILES, DEFAULT_QUANTILE)),
    )


def choice(parameters: Parameters, field: str, allowed: Sequence[str], default: str) -> str:
    """A parameter that must be one of a few words. Raises BadQuestionError."""
    value = one(parameters, field, default)
    if value not in allowed:
        raise BadQuestionError(field, value, "is not one of the values", f"Use one of {', '.join(allowed)}")
    return value


def whole(parameters: Parameters, field: str, default: int, low: int, high: int) -> int:
    """A parameter that is a whole number in a range. Raises BadQuestionError."""
    value = one(parameters, field, str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 10 and low <= int(value) <= high):
        raise BadQuestionError(
            field, value, f"is not a whole number from {low} to {high}", f"Use {default}, or leave it out"
        )
    return int(value)


def one(parameters: Parameters, field: str, default: str) -> str:
    """A parameter that may be given once; empty is as good as absent. Raises BadQuestionError."""
    values = [value for value in parameters.get(field, ()) if value]
    if len(values) > 1:
        raise BadQuestionError(field, values[1], "is given more than once", f"Keep one {field}")
    return values[0] if values else default


def _filters(parameters: Parameters) -> Filters:
    filters: Filters = {}
    for name in DIMENSIONS:
        values = tuple(dict.fromkeys(value for value in parameters.get(name, ()) if value))
        if len(values) > MOST_VALUES:
            raise BadQuestionError(name, values[0], f"has {len(values)} values", f"Give at most {MOST_VALUES}")
        for value in values:
            if len(value) > LONGEST_VALUE or has_control_characters(value):
                raise BadQuestionError(
                    name,
                    value,
                    "is not a name",
                    f"Give text without control characters, of at most {LONGEST_VALUE} characters",
                )
        if values:
            filters[name] = tuple("" if value == UNKNOWN else value for value in values)
    if attributes := _attributes(parameters):
        filters["attribute"] = attributes
    return filters


def _attributes(parameters: Parameters) -> tuple[str, ...]:
    """`key=value` each; all must hold."""
    found = tuple(dict.fromkeys(text.strip() for text in parameters.get("attribute", ()) if text.strip()))
    if len(found) > MOST_ATTRIBUTES:
        raise BadQuestionError("attribute", found[0], f"is one of {len(found)}", f"Give at most {MOST_ATTRIBUTES}")
    for text in found:
        key, equals, value = text.partition("=")
        if not (key and equals and value) or has_control_characters(text) or len(value) > LONGEST_TEXT:
            remedy = f"Write key=value, such as user.id=42, the value at most {LONGEST_TEXT} characters"
            raise BadQuestionError("attribute", text, "is not an attribute of a span", remedy)
    return found
