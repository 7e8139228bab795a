"""Reads a long body in steps of a millisecond or so, for a thread of its own: other threads wait for no more than one step."""

from collections.abc import Iterable
from typing import Any

import msgspec

_PART_BYTES = 32 << 10
_MAX_DEPTH = 5  # of values that are read in steps: a message's parts, and those of a tool's result
_JSON_SPACE = b" \t\r\n"
_decode = msgspec.json.decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_Bytes = bytes | msgspec.Raw


def decode(body: bytes) -> Any:
    """What the body says. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError."""
    return _value(body.strip(_JSON_SPACE), _MAX_DEPTH)


def let_go(values: Iterable[Any], depth: int = _MAX_DEPTH) -> None:
    """Empty lists and objects that nobody else uses: to end one of many parts takes as long as to read it."""
    for value in values:
        if isinstance(value, dict) and depth:
            let_go(value.values(), depth - 1)
        elif isinstance(value, list) and depth:
            let_go(value, depth - 1)
            while value:
                del value[-256:]


def _value(raw: _Bytes, depth: int) -> Any:
    with memoryview(raw) as view:
        if len(view) <= _PART_BYTES or not depth:
            return _decode(raw)
        first, second = bytes(view[:1]), bytes(view[1:64]).lstrip(_JSON_SPACE)[:1]
    if first == b"{":
        return {name: _value(part, depth - 1) for name, part in _members(raw).items()}
    if first == b"[" and second in (b"[", b"{", b'"'):  # else numbers, which take next to no time
        return [_value(part, depth - 1) for part in _elements(raw)]
    return _decode(raw)
