"""Splits a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from typing import NamedTuple

from inference.core.backend_errors import FailedError

MAX_EVENT_BYTES = 8 << 20
"""An event may be so long: a tool call with long arguments, or logprobs of many tokens."""


class SseEvent(NamedTuple):
    """`name` is empty for an ordinary event. The data of an `error` event without data is the text of its comments, because
    Dynamo writes it there (lib/llm/src/http/service/disconnect.rs).
    """

    data: bytes
    name: str = ""


class SseReader:
    """`feed` takes bytes as they arrive, and returns the events that they complete. Comments, which servers send to keep
    the connection alive, are left out.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Raises FailedError where an event has no end in sight."""
        data = self._rest + data if self._rest else data
        if b"\r" in data:  # as a line end: inside of JSON it is escaped
            whole = data[:-1] if data.endswith(b"\r") else data  # the rest of this line end may be on its way
            data = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + data[len(whole) :]
        *blocks, self._rest = data.split(b"\n\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise FailedError(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes", "bad_response")
        events = []
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block:  # nearly all
                events.append(SseEvent(block[6:]))
            elif (event := _event(block)) is not None:
                events.append(event)
        return events


def _event(block: bytes) -> SseEvent | None:
    name, lines, comments = "", list[bytes](), list[bytes]()
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif not field:
            comments.append(value)
    if lines:
        return SseEvent(b"\n".join(lines), name)
    return SseEvent(b" ".join(comments).strip(), name) if name == "error" else None
