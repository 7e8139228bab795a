"""A question about latency, read from URL parameters and written back to them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from controlplane.telemetry.core.query_types import Dimension, Filter, Filters
from controlplane.telemetry.ledger.attribute_index import MAX_TEXT_CHARS
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import (
    ATTRIBUTE,
    NAME,
    TOKENS,
    Parameters,
    choice,
    query_string,
    single,
)
from controlplane.telemetry.query.core.timerange import TimeRange
from controlplane.telemetry.query.core.timerange import parse as parse_range

Quantile = Literal["p50", "p95", "p99"]
QUANTILES: tuple[Quantile, ...] = get_args(Quantile)
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
MAX_VALUES = 50
MAX_ATTRIBUTES = 10
UNKNOWN = "(unknown)"
"""In URLs: the requests whose value of the dimension is not known. The store has an empty text there."""
_NOT = re.compile("([^=!]+)!=(.*)")
"""How people write in the field of attributes that one must not hold."""
_OF_TOKENS = re.compile(r"tokens\s*(?=[<>])")
"""How people write a bound of the prompt's length into the field of attributes."""
DEFAULT_FROM, DEFAULT_TO = "now-15m", "now"
DEFAULT_QUANTILE: Quantile = "p95"


@dataclass(frozen=True, slots=True)
class Question:
    range: TimeRange
    filters: Filters
    quantile: Quantile = DEFAULT_QUANTILE

    def pairs(self) -> list[tuple[str, str]]:
        """The URL parameters of this question, in a stable order. The defaults of `from` and `to` are among them."""
        pairs = [("from", self.range.from_text), ("to", self.range.to_text)]
        pairs += [(name, value or UNKNOWN) for name in DIMENSIONS for value in self.filters.get(name, ())]
        pairs += [("attribute", pair) for pair in self.filters.get("attribute", ())]
        pairs += [("not", f"{pair}{UNKNOWN}" if pair.endswith("=") else pair) for pair in self.filters.get("not", ())]
        pairs += [("tokens", bound) for bound in self.filters.get("tokens", ())]
        if self.quantile != DEFAULT_QUANTILE:
            pairs.append(("q", self.quantile))
        return pairs

    def query(self) -> str:
        return query_string(self.pairs())

    def with_filter(self, dimension: Filter, *values: str) -> "Question":
        """The same question with one filter replaced. Without values, the filter is removed."""
        filters = {name: kept for name, kept in self.filters.items() if name != dimension}
        if values:
            filters[dimension] = values
        return replace(self, filters=filters)

    def without(self, name: Filter, value: str) -> "Question":
        """The same question without one of a filter's values."""
        return self.with_filter(name, *(kept for kept in self.filters.get(name, ()) if kept != value))

    def turned(self, name: Dimension, value: str) -> "Question":
        """The same question with "is" of one value turned into "is not", or back."""
        pair = f"{name}={value}"
        unwanted = self.filters.get("not", ())
        if pair in unwanted:
            return self.without("not", pair).with_filter(name, *self.filters.get(name, ()), value)
        return self.without(name, value).with_filter("not", *unwanted, pair)

    def with_quantile(self, quantile: Quantile) -> "Question":
        return replace(self, quantile=quantile)

    def with_range(self, time_range: TimeRange) -> "Question":
        return replace(self, range=time_range)


def parse(parameters: Parameters, now_ns: int) -> Question:
    """Read a question. Other parameters are ignored. Raises BadQuestionError."""
    return Question(
        range=parse_range(single(parameters, "from", DEFAULT_FROM), single(parameters, "to", DEFAULT_TO), now_ns),
        filters=_filters(parameters),
        quantile=cast(Quantile, choice(parameters, "q", QUANTILES, DEFAULT_QUANTILE)),
    )


def _filters(parameters: Parameters) -> Filters:
    filters: Filters = {}
    for name in DIMENSIONS:
        values = tuple(dict.fromkeys(value for value in parameters.get(name, ()) if value))
        if len(values) > MAX_VALUES:
            raise BadQuestionError(name, values[0], f"has {len(values)} values", f"Give at most {MAX_VALUES}")
        for value in values:
            if not NAME.matches(value):
                raise BadQuestionError(name, value, "is not a name", NAME.remedy)
        if values:
            filters[name] = tuple("" if value == UNKNOWN else value for value in values)
    written = [text.strip() for text in parameters.get("attribute", ())]
    if attributes := _pairs(
        "attribute", [text for text in written if not (_NOT.match(text) or _OF_TOKENS.match(text))]
    ):
        filters["attribute"] = attributes
    turned = [f"{match[1]}={match[2]}" for text in written if (match := _NOT.fullmatch(text))]
    if unwanted := _pairs("not", [*(text.strip() for text in parameters.get("not", ())), *turned]):
        filters["not"] = tuple(pair.removesuffix(UNKNOWN) if _is_unknown(pair) else pair for pair in unwanted)
    bounds = [_OF_TOKENS.sub("", text) for text in written if _OF_TOKENS.match(text)]
    if tokens := _tokens([*parameters.get("tokens", ()), *bounds]):
        filters["tokens"] = tokens
    return filters


def _tokens(texts: Sequence[str]) -> tuple[str, ...]:
    """A comparison each; all must hold. Spaces and commas are for people."""
    bounds = tuple(dict.fromkeys(bound for text in texts if (bound := re.sub(r"[\s,]", "", text))))
    if len(bounds) > MAX_ATTRIBUTES:
        raise BadQuestionError("tokens", bounds[0], f"is one of {len(bounds)}", f"Give at most {MAX_ATTRIBUTES}")
    for bound in bounds:
        if not TOKENS.matches(bound):
            raise BadQuestionError("tokens", bound, "is no bound of a prompt's length", TOKENS.remedy)
    return bounds


def _pairs(field: str, texts: Sequence[str]) -> tuple[str, ...]:
    """`key=value` each."""
    pairs = tuple(dict.fromkeys(text for text in texts if text))
    if len(pairs) > MAX_ATTRIBUTES:
        raise BadQuestionError(field, pairs[0], f"is one of {len(pairs)}", f"Give at most {MAX_ATTRIBUTES}")
    for pair in pairs:
        if not ATTRIBUTE.matches(pair) or len(pair.partition("=")[2]) > MAX_TEXT_CHARS:
            remedy = f"{ATTRIBUTE.remedy}, the value at most {MAX_TEXT_CHARS} characters"
            raise BadQuestionError(field, pair, "is not an attribute of a span", remedy)
    return pairs


def _is_unknown(pair: str) -> bool:
    key, _, value = pair.partition("=")
    return value == UNKNOWN and key in DIMENSIONS
