"""Cuts a stream of server-sent events into its events, and leaves their bytes as they are
(https://html.spec.whatwg.org/multipage/server-sent-events.html).
"""

import re
from typing import NamedTuple

from inference.core.backend_errors import FailedError

MAX_EVENT_BYTES = 8 << 20
"""An event may be so long: a tool call with long arguments, or logprobs of many tokens."""

_END = re.compile(rb"\r?\n\r?\n|\r\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which a stream may begin with


class Block(NamedTuple):
    """An event with the empty line that ends it: `raw` as it came, and what it says. The data of an `error` event without
    data is the text of its comments, because Dynamo writes it there (lib/llm/src/http/service/disconnect.rs).
    """

    raw: bytes
    data: bytes
    name: str = ""


class Blocks:
    """`feed` takes bytes as they arrive, and returns the events that they complete."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Block]:
        """Raises FailedError where an event has no end in sight."""
        data = self._rest + data if self._rest else data
        events = []
        if data.find(b"\r") < 0:  # `bytes in bytes` raises an error within, and takes twice as long
            start = 0
            while (end := data.find(b"\n\n", start)) >= 0:
                events.append(_block(data[start : end + 2]))
                start = end + 2
        else:
            start = 0
            for mark in _END.finditer(data):
                events.append(_block(data[start : mark.end()]))
                start = mark.end()
        self._rest = data[start:]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise FailedError(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes", "bad_response")
        return events

    @property
    def is_empty(self) -> bool:
        """Whether no event has begun that has not ended."""
        return not self._rest

    def last(self) -> list[Block]:
        """The event that the stream has ended in, if it has: its empty line is missing."""
        rest, self._rest = self._rest, b""
        return [_of_lines(rest)] if rest else []


def blocks_of(whole: bytes) -> list[Block]:
    """The events of a stream that has ended."""
    blocks = Blocks()
    return [*blocks.feed(whole), *blocks.last()]


def _block(raw: bytes) -> Block:
    if raw.startswith(b"data: ") and raw.find(b"\n", 0, -2) < 0 and raw.find(b"\r") < 0:  # nearly all
        return Block(raw, raw[6:-2])
    return _of_lines(raw)


def _of_lines(raw: bytes) -> Block:
    name, lines, comments = "", list[bytes](), list[bytes]()
    for line in raw.removeprefix(_BYTE_ORDER_MARK).splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif not field:
            comments.append(value)
    if not lines and name == "error":
        return Block(raw, b" ".join(comments).strip(), name)
    return Block(raw, b"\n".join(lines), name)
