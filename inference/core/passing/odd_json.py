"""Reads the JSON of answers, also what servers in Python write beyond it."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from inference.contract.lenient import UNREADABLE

_Read = TypeVar("_Read")


def read_leniently(data: bytes) -> Any:
    """What JSON with NaN, half a surrogate pair or bytes that are no UTF-8 says. Raises ValueError."""
    try:
        return json.loads(data.decode("utf-8-sig", "replace"), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(_: str) -> None: ...


def reading(kind: type[_Read]) -> Callable[[bytes], _Read]:
    """What reads an answer as `kind`. It raises ValueError."""
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> _Read:
        try:
            return decode(data)
        except UNREADABLE:
            return decode(json.dumps(read_leniently(data), ensure_ascii=False).encode("utf-8", "replace"))

    return read
