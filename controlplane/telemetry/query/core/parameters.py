"""Reads URL parameters one by one, and refuses those that are unknown, repeated or malformed.

Pages and the REST API share it: the OpenAPI document states the patterns of `Form`.
"""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, NoReturn
from urllib.parse import urlencode

from controlplane.telemetry.query.core.errors import BadParameterError, BadQuestionError

Parameters = Mapping[str, Sequence[str]]
MAX_NAME_CHARS = 200
_CONTROL = r"\x00-\x1f\x7f-\x9f"


class Form(NamedTuple):
    """A pattern that a whole value matches, and what to write instead of a value that does not."""

    pattern: str
    remedy: str

    def matches(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value) is not None


NAME = Form(
    rf"^[^{_CONTROL}]{{1,{MAX_NAME_CHARS}}}$",
    f"Give text without control characters, of at most {MAX_NAME_CHARS} characters",
)
TEXT = Form(rf"^[^{_CONTROL}]+$", "Give text without control characters")
TOKENS = Form(r"^(>=|<=|>|<)[0-9]{1,9}$", "Write >4000, >=4000, <4000 or <=4000")
ATTRIBUTE = Form(rf"^[^={_CONTROL}]+=[^{_CONTROL}]+$", "Write key=value, such as user.id=42")
MATCH = Form(
    rf"^[^=!~\s{_CONTROL}]{{1,512}}(=~|!~|!=|=)[^{_CONTROL}]*$",
    "Write label=value, label!=value, label=~expression or label!~expression",
)


def single(parameters: Parameters, field: str, default: str) -> str:
    """The value of a parameter that may be given once. Empty counts as absent. Raises BadParameterError."""
    values = [value for value in parameters.get(field, ()) if value]
    if len(values) > 1:
        refuse_repeated(field, values)
    return values[0] if values else default


def choice(parameters: Parameters, field: str, allowed: Sequence[str], default: str) -> str:
    """The value of a parameter that must be one of `allowed`. Raises BadQuestionError."""
    value = single(parameters, field, default)
    if value not in allowed:
        raise BadQuestionError(field, value, "is not one of the values", f"Use one of {', '.join(allowed)}")
    return value


def whole_number(parameters: Parameters, field: str, default: int, low: int, high: int) -> int:
    """The value of a parameter that is a whole number from `low` to `high`. Raises BadQuestionError."""
    value = single(parameters, field, str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 10 and low <= int(value) <= high):
        raise BadQuestionError(
            field, value, f"is not a whole number from {low} to {high}", f"Use {default}, or leave it out"
        )
    return int(value)


def refuse_undocumented(parameters: Parameters, known: Collection[str], lists: Collection[str]) -> None:
    """Refuse parameters that are not in `known`, and repeated ones that are not in `lists`. Raises BadParameterError.

    A misspelt filter must not widen an answer.
    """
    for name, values in parameters.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"Did you mean {near[0]}" if near else f"Use {', '.join(known)}" if known else "Leave it out"
            raise BadParameterError(name, values[0], "is not a parameter of this endpoint", remedy)
        if len(values) > 1 and name not in lists:
            refuse_repeated(name, values)


def refuse_repeated(field: str, values: Sequence[str]) -> NoReturn:
    raise BadParameterError(field, values[1], "is given more than once", f"Keep one {field}")


def query_string(pairs: Sequence[tuple[str, str]]) -> str:
    """Parameters as a query string. Colons of times are not escaped, so that people can read it."""
    return urlencode(pairs, safe=":")
