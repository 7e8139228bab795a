"""Replaces, removes and adds members of a JSON object, and leaves every other byte of it as it is."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from inference.contract.lenient import UNREADABLE

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.S)
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.S)
_SCALAR = re.compile(rb"[^\s,\]}]+")
_SPACE = re.compile(rb"\s*")
_SPACES = b" \t\n\r"
_COLON = re.compile(rb"\s*:\s*")
_COMMA = re.compile(rb"\s*,\s*")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Member(NamedTuple):
    """Where a member stands: from `start` to `end`, its value from `value`."""

    name: str
    start: int
    value: int
    end: int


def members(body: bytes, at: int = 0) -> list[Member]:
    """The members of the object that begins at or after `at`, in their order. `body` is valid JSON."""
    values = {} if at else _values(body)
    those = []
    at = _after(_SPACE, body, body.index(b"{", at) + 1)
    while body[at : at + 1] == b'"':
        key_end = _after(_STRING, body, at)
        value = _after(_COLON, body, key_end)
        key = body[at:key_end]
        name = json.loads(key) if b"\\" in key else key[1:-1].decode("utf-8", "replace")
        known = bytes(values[name]) if name in values else b""
        # Else there are two of the name, of which one may begin with the other: 12 and 1.
        is_it = known[:1] in (b'"', b"{", b"[") and body.startswith(known, value)
        end = value + len(known) if is_it else _end(body, value)
        those.append(Member(name, at, value, end))
        comma = _COMMA.match(body, end)
        if comma is None:
            break
        at = comma.end()
    return those


def changed(body: bytes, changes: Mapping[str, bytes | None], there: list[Member] | None = None) -> bytes:
    """The object with other values; None removes a member. One that is not there is added at the end. `there` are its members, where
    they are known.
    """
    there = members(body) if there is None else there
    first = body.index(b"{") + 1
    parts = [body[: there[0].start if there else first]]
    empty = True
    for number, (name, start, value, end) in enumerate(there):
        if changes.get(name, b"") is None:
            continue
        if not empty:
            parts.append(body[there[number - 1].end : start])  # the comma
        parts += [body[start:value], changes.get(name) or body[value:end]]
        empty = False
    names = {member.name for member in there}
    added = _written({name: value for name, value in changes.items() if value is not None and name not in names})
    if added:
        parts += [b"" if empty else b",", added]
    parts.append(body[there[-1].end if there else first :])
    return b"".join(parts)


def extended(body: bytes, added: Mapping[str, bytes]) -> bytes:
    """As `changed` writes it where the object has members, and none of `added`."""
    end = body.rindex(b"}")
    while body[end - 1] in _SPACES:
        end -= 1
    return b"".join((body[:end], b",", _written(added), body[end:]))


def _written(added: Mapping[str, bytes]) -> bytes:
    return b",".join([b"%s:%s" % (json.dumps(name).encode(), value) for name, value in added.items()])


def with_value(body: bytes, path: tuple[str, ...], old: bytes, new: bytes) -> bytes:
    """The object with `new` for the value at `path`, if that is `old`."""
    at = 0
    for depth, name in enumerate(path):
        member = next((each for each in members(body, at) if each.name == name), None)
        if member is None:
            return body
        if depth == len(path) - 1:
            return body[: member.value] + new + body[member.end :] if body[member.value : member.end] == old else body
        if body[member.value : member.value + 1] != b"{":
            return body
        at = member.value
    return body


def _values(body: bytes) -> Mapping[str, msgspec.Raw]:
    """The values of the object's members, so that their ends need not be searched for. None where it is no JSON but for Python."""
    try:
        return _decode(body)
    except UNREADABLE:
        return {}


def _end(body: bytes, at: int) -> int:
    """Where the value that begins at `at` ends."""
    first = body[at : at + 1]
    if first == b'"':
        return _after(_STRING, body, at)
    if first not in (b"{", b"["):
        return _after(_SCALAR, body, at)
    depth = 0
    for mark in _MARK.finditer(body, at):
        character = body[mark.start()]
        if character in b"{[":
            depth += 1
        elif character in b"}]":
            depth -= 1
            if not depth:
                return mark.end()
    raise ValueError("the JSON has no end")


def _after(pattern: re.Pattern[bytes], body: bytes, at: int) -> int:
    match = pattern.match(body, at)
    if match is None:
        raise ValueError(f"no JSON at byte {at}")
    return match.end()
