"""Formats of values in the REST API. The document has a pattern for each, and the API accepts exactly what matches it."""

import math
import re
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from controlplane.fleet.validators import CACHE_KEY as _CACHE_KEY_OF
from controlplane.fleet.validators import NAME as _SLUG_OF
from controlplane.incidents.core.silences import MAX_MATCHER_CHARS
from controlplane.incidents.core.silences import PATTERN as _MATCHER
from controlplane.planning.quarter import PATTERN as _QUARTER
from controlplane.slo.core.sli import MEASURES
from controlplane.telemetry.ledger.row import PROMPT_BUCKETS
from controlplane.telemetry.query.core import timerange
from controlplane.telemetry.query.core.metric_question import MAX_MATCH_CHARS
from controlplane.telemetry.query.core.parameters import ATTRIBUTE, MATCH, NAME, TEXT, TOKENS
from controlplane.telemetry.query.core.question import UNKNOWN
from controlplane.telemetry.query.core.timerange import INSTANT as _INSTANT
from controlplane.telemetry.query.core.timerange import MOMENT as _MOMENT
from inference.contract.stages import STAGES

TIME = (
    "`now`, `now-15m`, `now-1d-15m` (units s, m, h, d, w), ISO 8601 (UTC unless it says otherwise), or seconds, ms, µs or ns since"
    " the epoch."
)
MAX_NUMBER = 2**63 - 1

_SLUG = f"^{_SLUG_OF.pattern}$"
_MEASURED = f"^({'|'.join((*MEASURES, *STAGES))})$"
_WORDS = r"^[^\x00]*$"
_TRACE_ID = r"^[0-9a-fA-F]{32}$"
_LINK = r"^(https?://[^\s\x00-\x1f\x7f-\x9f]+)?$"
_CURSOR = r"^[A-Za-z0-9_-]+$"
Cache = Literal["hit", "semantic", "partial", "miss", "coalesced", "bypass", "skipped", "(unknown)"]
Status = Literal["ok", "error", "cancelled", "rejected", "(unknown)"]
_ONE_OF = {
    name: "|".join(map(re.escape, values))
    for name, values in {
        "cache": get_args(Cache),
        "prompt_bucket": (*PROMPT_BUCKETS, UNKNOWN),
        "status": get_args(Status),
    }.items()
}
"""What a request can have, by filter."""
_BUCKET = f"^({_ONE_OF['prompt_bucket']})$"
_UNWANTED = "".join(f"^(?!{name}=(?!({values})$))" for name, values in _ONE_OF.items()) + ATTRIBUTE.pattern
DECISION_KEY = "^[0-9a-f]{16}$"
_CACHE_KEY = f"^{_CACHE_KEY_OF.pattern}$"
_WALL_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?$"

REMEDIES = {
    _INSTANT: timerange.REMEDY,
    **dict((NAME, TEXT, ATTRIBUTE, MATCH, TOKENS)),
    _SLUG: "Use lower-case letters, digits, “.”, “-” and “_”, such as chat-ttft",
    _MEASURED: f"Use one of {', '.join((*MEASURES, *STAGES))}",
    _BUCKET: f"Use one of {', '.join(PROMPT_BUCKETS)}",
    _WORDS: "Leave out the character NUL",
    _MATCHER: "Write NAME=VALUE or NAME!=VALUE, such as tier=batch",
    _TRACE_ID: "Give 32 hexadecimal digits",
    _LINK: "Write https://…, or leave it out",
    _CURSOR: "Give the `next_cursor` of the page before, or leave it out",
    _QUARTER: "Write 2027-Q1",
    DECISION_KEY: "Give the key of a decision, 16 hexadecimal digits, as /api/v1/decisions lists it",
    _CACHE_KEY: "Give the `x-weir-cache-key` of an answer, 64 hexadecimal digits in lower case",
    _WALL_TIME: "Write 2026-11-22T02:00:00, without an offset",
}
"""What to write instead, by pattern."""

Instant = Annotated[str, Field(pattern=_INSTANT)]
Name = Annotated[str, Field(pattern=NAME.pattern)]
Text = Annotated[str, Field(pattern=TEXT.pattern)]
Attribute = Annotated[str, Field(pattern=ATTRIBUTE.pattern)]
Bucket = Annotated[str, Field(pattern=_BUCKET)]
TokenBound = Annotated[str, Field(pattern=TOKENS.pattern)]
Match = Annotated[str, Field(max_length=MAX_MATCH_CHARS, pattern=MATCH.pattern)]
Matcher = Annotated[str, Field(max_length=MAX_MATCHER_CHARS, pattern=_MATCHER)]
TraceId = Annotated[str, Field(pattern=_TRACE_ID)]
Cursor = Annotated[str, Field(min_length=1, max_length=400, pattern=_CURSOR)]
Number = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Slug = Annotated[str, Field(max_length=100, pattern=_SLUG)]
Measured = Annotated[str, Field(pattern=_MEASURED)]
Words = Annotated[str, Field(pattern=_WORDS)]
Link = Annotated[str, Field(max_length=500, pattern=_LINK)]
QuarterName = Annotated[str, Field(pattern=_QUARTER)]
ScenarioText = Annotated[str, Field(max_length=500, pattern=TEXT.pattern)]
DecisionKey = Annotated[str, Field(pattern=DECISION_KEY)]
CacheKey = Annotated[str, Field(pattern=_CACHE_KEY)]
WallTime = Annotated[str, Field(max_length=19, pattern=_WALL_TIME)]


def _moment(given: Any) -> Any:
    if isinstance(given, datetime) or given is None:
        return given
    if not isinstance(given, str) or not re.fullmatch(_MOMENT, given, re.ASCII):
        raise PydanticCustomError("moment", "Write 2026-11-20T14:05:00Z, with the offset")
    return datetime.fromisoformat(given)


def _unwanted(given: str) -> str:
    if not re.match(_UNWANTED, given):
        raise PydanticCustomError("unwanted", f"{ATTRIBUTE.remedy}, with a value that requests can have")
    return given


def _finite(value: Any) -> Any:
    """JSON knows neither infinity nor NaN."""
    return value if value is None or math.isfinite(value) else None


Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "pattern": _MOMENT})]
"""With its offset: without one, it would depend on the time zone."""


Unwanted = Annotated[str, AfterValidator(_unwanted), WithJsonSchema({"type": "string", "pattern": _UNWANTED})]
"""An attribute, or a filter with a value that requests can have."""
DECIMALS = 6
"""Of a millisecond: measurements are in nanoseconds."""
Rounded = Annotated[float, AfterValidator(lambda value: round(value, DECIMALS))]
NsAsMs = Annotated[Rounded, BeforeValidator(lambda ns: ns / 1e6)]
"""Answers ms of a value in ns."""
Finite = Annotated[float | None, BeforeValidator(_finite)]
Length = Annotated[int, BeforeValidator(len)]
"""Answers how many there are."""
Hex = Annotated[str, BeforeValidator(bytes.hex)]
NameOf = Annotated[str | None, BeforeValidator(lambda row: row and row.name)]
"""Answers the name of another row; null where there is none."""
Summed = Annotated[float, BeforeValidator(lambda values: float(values.sum()))]


class Given(BaseModel):
    """A JSON object in a request's body. Unknown fields and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    @field_validator("*", mode="before")
    @classmethod
    def _whole(cls, given: Any) -> Any:
        """JSON has one kind of number: 60.0 is an integer too."""
        return int(given) if isinstance(given, float) and given.is_integer() else given
