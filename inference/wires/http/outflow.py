"""What goes to a client over HTTP/2: frames at once, and data as far as its windows allow, in turns (RFC 9113, 5.2)."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from inference.core import http2 as h2
from inference.core.http2_heads import NO_TABLE
from inference.wires.http.stream import Stream


class Answered(Protocol):
    def __call__(self, stream: Stream) -> None:
        """The end of the stream's answer has been written."""


class Outflow:
    """`send` writes to the transport. Data waits while the transport is full, or a window is used up."""

    def __init__(self, send: Callable[[bytes], None], answered: Answered) -> None:
        self._send, self._answered = send, answered
        self._window = self._initial_window = h2.DEFAULT_WINDOW
        self._waiting: deque[Stream] = deque()  # streams that have data, and a window for it
        self._writable = True
        self._batch: list[bytes] | None = None
        self._first_head = True

    @property
    def initial_window(self) -> int:
        return self._initial_window

    @property
    def in_batch(self) -> bool:
        return self._batch is not None

    def begin_batch(self) -> None:
        """Keep frames until `end_batch`, so that one write takes them all."""
        self._batch = []

    def end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch:
            self._send(b"".join(batch))

    def write(self, frames: bytes) -> None:
        if self._batch is None:
            self._send(frames)
        else:
            self._batch.append(frames)

    def head(self, stream: Stream, block: bytes, *, end: bool) -> bytes:
        """The frames of an answer's head."""
        if self._first_head:
            self._first_head = False
            block = NO_TABLE + block
        flags = h2.END_STREAM if end else 0
        if len(block) <= h2.DEFAULT_MAX_FRAME:
            return h2.frame(h2.HEADERS, flags | h2.END_HEADERS, stream.identity, block)
        parts = [block[at : at + h2.DEFAULT_MAX_FRAME] for at in range(0, len(block), h2.DEFAULT_MAX_FRAME)]
        frames = [h2.frame(h2.HEADERS, flags, stream.identity, parts[0])]
        frames += [h2.frame(h2.CONTINUATION, 0, stream.identity, part) for part in parts[1:-1]]
        return b"".join((*frames, h2.frame(h2.CONTINUATION, h2.END_HEADERS, stream.identity, parts[-1])))

    def send(self, stream: Stream, block: bytes, data: bytes, end: bool) -> None:
        """Send the head of an answer, if there is one, data, if there is some, and the end, if this is it."""
        if not stream.open or stream.ends:
            return
        stream.ends = end
        size = len(data)
        frames = self.head(stream, block, end=end and not size) if block else b""
        if stream.unsent:
            stream.unsent += data
            stream.hold(size)
            return
        if size > stream.window or size > self._window or size > h2.DEFAULT_MAX_FRAME or (size and not self._writable):
            if frames:
                self.write(frames)
            stream.unsent += data
            stream.hold(size)
            self._queue(stream)
            self.pump()
            return
        if size or (end and not block):
            stream.window -= size
            self._window -= size
            frames += h2.frame(h2.DATA, h2.END_STREAM if end else 0, stream.identity, data)
        if frames:
            self.write(frames)
        if end:
            self._answered(stream)

    def set_writable(self, writable: bool) -> None:
        self._writable = writable
        if writable:
            self.pump()

    def widen(self, stream: Stream, more: int) -> bool:
        """Widen its window. False if that is wider than any window may be."""
        stream.window += more
        if stream.unsent and not stream.queued:
            self._queue(stream)
        return stream.window <= h2.MAX_WINDOW

    def widen_all(self, more: int) -> bool:
        """Widen the window that all streams share. False if that is wider than any window may be."""
        self._window += more
        return self._window <= h2.MAX_WINDOW

    def begin_with(self, window: int) -> int:
        """The window of streams to come. Returns how much wider that is than before."""
        more, self._initial_window = window - self._initial_window, window
        return more

    def _queue(self, stream: Stream) -> None:
        if stream.window > 0:
            stream.queued = True
            self._waiting.append(stream)

    def pump(self) -> None:
        """Send what waits, a frame of each stream in turn."""
        while self._waiting and self._window > 0 and self._writable:
            stream = self._waiting.popleft()
            stream.queued = False
            size = min(len(stream.unsent), stream.window, self._window, h2.DEFAULT_MAX_FRAME)
            if not stream.open or size <= 0:
                continue
            data = bytes(stream.unsent[:size])
            del stream.unsent[:size]
            stream.hold(-size)
            stream.moved = True
            stream.window -= size
            self._window -= size
            end = stream.ends and not stream.unsent
            self.write(h2.frame(h2.DATA, h2.END_STREAM if end else 0, stream.identity, data))
            if end:
                self._answered(stream)
            elif stream.unsent:
                self._queue(stream)
            stream.caught_up()
