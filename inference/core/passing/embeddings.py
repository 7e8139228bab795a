"""Cuts an answer for a list of inputs into what is each input's own, and makes such an answer of those. Every byte of them stays as
the server wrote it, but for the numbers of the items and the counts of tokens.

An answer that is not known to be made of independent items, in their order and with one count of tokens, is not cut.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from inference.contract.lenient import UNREADABLE
from inference.core.passing.json_members import members, with_value

_DATA = re.compile(rb'"data"\s*:\s*\[')
_SPACE = re.compile(rb"\s*")
_COMMA = re.compile(rb"\s*,\s*")
_CLOSES = re.compile(rb"\s*\]")
_INDEX = re.compile(rb'"index"\s*:\s*(\d+)')
_MEMBERS = frozenset(("id", "object", "created", "model", "data", "usage"))
_MAX_HEAD_BYTES = 4096  # before the items
_COUNTS = ("prompt_tokens", "total_tokens")


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """What is around the items. `text` is the answer without any, `opens`, `comma` and `closes` are what the server writes before,
    between and after them.
    """

    text: bytes
    opens: bytes
    comma: bytes
    closes: bytes


class Item(NamedTuple):
    """One input's part of an answer: what is before its number, and what is after it."""

    before: bytes
    after: bytes


class Cut(NamedTuple):
    """`tokens` are those of all inputs together."""

    frame: Frame
    items: list[Item]
    tokens: int


class _Item(msgspec.Struct, forbid_unknown_fields=True):
    index: int
    embedding: msgspec.Raw
    object: str = ""


_decode_item = msgspec.json.Decoder(_Item).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def cut(body: bytes) -> Cut | None:
    """In steps of an item each, so that other threads need not wait for long."""
    data = _DATA.search(body)
    if data is None:
        return None
    opens = _match(_SPACE, body, data.end())
    at, items, comma = data.end() + len(opens), list[Item](), b""
    while True:
        end = body.find(b"}", at) + 1
        item = _item(body[at:end], len(items))
        if item is None:
            return None
        items.append(item)
        between = _match(_COMMA, body, end)
        if not between:
            break
        if comma and between != comma:
            return None
        comma, at = between, end + len(between)
    closes = _match(_CLOSES, body, end)[:-1]
    text = body[: data.end()] + body[end + len(closes) :]
    tokens = _tokens(text)
    return None if tokens is None else Cut(Frame(text, opens, comma, closes), items, tokens)


def without_items(body: bytes) -> tuple[bytes, int, int] | None:
    """The answer with an empty list in place of its items, and where these begin and end. In next to no time, however many they
    are: that each is whole, only `cut` knows.
    """
    data, end = _DATA.search(body, 0, _MAX_HEAD_BYTES), body.rfind(b"]")
    if data is None or end < data.end():
        return None
    text = body[: data.end()] + body[end:]
    try:
        answer = _decode(text)
    except UNREADABLE:
        return None
    # What is looked for is around the items, and not between them and another list.
    return (text, data.end(), end) if answer.keys() >= {"model", "usage"} and answer["data"] == [] else None


def with_items(text: bytes, items: bytes) -> bytes:
    """An answer of `without_items`, with its items again."""
    data = _DATA.search(text)
    return text if data is None else b"".join((text[: data.end()], items, text[data.end() :]))


def joined(frame: Frame, items: Sequence[Item], tokens: int) -> bytes:
    """The answer with these items, whose inputs have so many tokens together."""
    text = frame.text
    before = _decode(text)["usage"]
    for name in _COUNTS:
        text = with_value(text, ("usage", name), b"%d" % before[name], b"%d" % tokens)
    at = next(it for it in members(text) if it.name == "data").value + 1
    parts = [text[:at], frame.opens]
    for number, (head, tail) in enumerate(items):
        parts += (frame.comma if number else b"", head, b"%d" % number, tail)
    return b"".join((*parts, frame.closes, text[at:]))


def _item(raw: bytes, number: int) -> Item | None:
    index = _INDEX.search(raw)
    if index is None or raw.count(b'"index"') != 1:
        return None
    try:
        item = _decode_item(raw)
    except UNREADABLE:
        return None
    if item.index != number or index[1] != b"%d" % number or bytes(item.embedding)[:1] not in (b"[", b'"'):
        return None
    return Item(raw[: index.start(1)], raw[index.end(1) :])


def _tokens(text: bytes) -> int | None:
    """The tokens that an answer without its items counts; None where it says anything that is not known to be a sum over the inputs."""
    try:
        answer = _decode(text)
    except UNREADABLE:
        return None
    usage = answer.get("usage")
    if not answer.keys() <= _MEMBERS or answer.get("data") != [] or not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in _COUNTS]
    others = [value for name, value in usage.items() if name not in _COUNTS]
    if any(type(it) is not int or it < 0 for it in counts) or counts[0] != counts[1] or any(others):
        return None
    return int(usage["prompt_tokens"])


def _match(pattern: re.Pattern[bytes], body: bytes, at: int) -> bytes:
    match = pattern.match(body, at)
    return b"" if match is None else match.group()
