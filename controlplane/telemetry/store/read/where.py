"""Builds SQL conditions of windows and filters, with bound parameters. No text of a caller becomes SQL."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from controlplane.telemetry.core.query_types import FROM_CACHE, Dimension, Filters, Window, excluded
from controlplane.telemetry.ledger.attribute_index import attribute_hash, is_label
from controlplane.telemetry.ledger.row import RATE_LIMITED

from ..errors import StoreInputError
from ..write.arrow_columns import label_column

COLUMNS: dict[str, str] = {name: name for name in get_args(Dimension)} | {"cache": "cache_outcome"}
_BOUND = re.compile("(>=|<=|>|<)([0-9]{1,18})")
MAX_VALUES = 200
MAX_POINTS = 5000
ANSWERED = "status = 'ok'"
"""Only these have a latency (see latency.py)."""
FAILED = "status IN ('error', 'rejected')"
CLIENT_LIMIT = f"error_type = '{RATE_LIMITED}'"
"""Refused by its tenant's or key's own limit."""
CLIENT_ERROR = f"ifNull({FAILED} AND http_status BETWEEN 400 AND 499 AND http_status NOT IN (408, 429, 499), false)"
"""Wrong itself: no other replica would have answered it. Time-outs, full queues and clients that left have other statuses."""
CANCELLED = "status = 'cancelled'"
UNMEASURED = "status = 'ok' AND unmeasured"
OWN = f"cache_outcome NOT IN {FROM_CACHE}"
"""Requests that were sent to a replica, not answered by the cache or another request."""


@dataclass(slots=True)
class Where:
    """Conditions joined by AND, with their parameters."""

    conditions: list[str] = field(default_factory=list)
    parameters: dict[str, object] = field(default_factory=dict)
    table: str = "requests"
    """What is read: all requests, or those of a sample (sample.py)."""

    def add(self, condition: str, **parameters: object) -> None:
        self.conditions.append(condition)
        self.parameters.update(parameters)

    def add_length(self, min_e2e_ns: int, max_e2e_ns: int | None) -> None:
        """Requests of `min_e2e_ns <= e2e < max_e2e_ns` alone."""
        if min_e2e_ns > 0:
            self.add("e2e_ns >= {min_e2e:UInt64}", min_e2e=min_e2e_ns)
        if max_e2e_ns is not None:
            self.add("e2e_ns < {max_e2e:UInt64}", max_e2e=max_e2e_ns)

    def copy(self) -> "Where":
        """Conditions can be added to the copy alone."""
        return Where(list(self.conditions), dict(self.parameters), self.table)

    @property
    def sql(self) -> str:
        return " AND ".join(self.conditions) or "1"


def column(dimension: str) -> str:
    """The column of a dimension. Raises StoreInputError for any other name."""
    try:
        return COLUMNS[dimension]
    except KeyError:
        raise StoreInputError(f"dimension {dimension!r} is unknown; use one of {', '.join(COLUMNS)}") from None


def chart_step_ns(window: Window, step_s: int) -> int:
    """The step of a chart in ns. Raises StoreInputError where it is below a second, or makes more than MAX_POINTS."""
    step_ns = step_s * 10**9
    if step_s < 1 or (window.to_ns - window.from_ns) // step_ns > MAX_POINTS:
        raise StoreInputError(f"step {step_s} s is out of range; use 1 or more, and at most {MAX_POINTS} steps a chart")
    return step_ns


def where(window: Window, filters: Filters | None = None) -> Where:
    """Requests whose entry span starts in the window and that match every filter."""
    if not 0 <= window.from_ns <= window.to_ns < 2**64:
        raise StoreInputError(
            f"window {window.from_ns}..{window.to_ns} is not a range of nanoseconds; give from_ns <= to_ns"
        )
    condition = Where()
    condition.add(
        "entry_start_ns >= {from_ns:UInt64} AND entry_start_ns < {to_ns:UInt64}",
        from_ns=window.from_ns,
        to_ns=window.to_ns,
    )
    for dimension, values in (filters or {}).items():
        if len(values) > MAX_VALUES:
            raise StoreInputError(f"filter {dimension!r} has {len(values)} values; give at most {MAX_VALUES}")
        if dimension == "attribute":
            _having(condition, "attribute", values)
        elif dimension == "tokens":
            _of_length(condition, values)
        elif dimension == "not":
            for key, unwanted in excluded(filters or {}).items():
                if key in COLUMNS:
                    _among(condition, "NOT {}", f"not_{key}", key, unwanted)
                else:
                    _having(
                        condition, f"not_{len(condition.conditions)}", [f"{key}={value}" for value in unwanted], "NOT "
                    )
        elif values:
            _among(condition, "{}", f"in_{dimension}", dimension, values)
    return condition


def _among(condition: Where, form: str, parameter: str, dimension: str, values: Sequence[str]) -> None:
    allowed = f"{column(dimension)} IN {{{parameter}:Array(String)}}"
    if dimension == "replica":  # also a replica whose attempt failed before another answered
        allowed = f"({allowed} OR hasAny(attempt_replica, {{{parameter}:Array(String)}}))"
    condition.add(form.format(f"({allowed})"), **{parameter: list(values)})


def _of_length(condition: Where, bounds: Sequence[str]) -> None:
    for number, bound in enumerate(bounds):
        match = _BOUND.fullmatch(bound)
        if match is None:
            raise StoreInputError(f"tokens {bound!r} is no bound; write >4000, >=4000, <4000 or <=4000")
        condition.add(
            f"ifNull(prompt_tokens {match[1]} {{tokens_{number}:UInt64}}, false)", **{f"tokens_{number}": int(match[2])}
        )


def _having(condition: Where, parameter: str, attributes: Sequence[str], form: str = "") -> None:
    for number, attribute in enumerate(attributes):
        key, equals, value = attribute.partition("=")
        if not key or not equals:
            raise StoreInputError(f"attribute {attribute!r} is not one; write key=value, such as user.id=42")
        hashed = attribute_hash(key, value)
        column = label_column(hashed) if is_label(key, value) else "attributes"
        condition.add(f"{form}has({column}, {{{parameter}_{number}:UInt64}})", **{f"{parameter}_{number}": hashed})
