"""What a client may send over HTTP/2: the server's settings, and the windows for its data (RFC 9113, 5.2).

What is kept is bounded by the windows of streams: 64 KiB each, and for a few large bodies at once the whole body. The
window that all streams share is opened again at once.
"""

from collections import deque
from collections.abc import Callable

from inference.core import http2 as h2
from inference.core.http2_heads import MAX_HEAD_BYTES
from inference.wires.http.stream import Stream

MAX_STREAMS = 100  # RFC 9113, 6.5.2 recommends no fewer
SMALL_BODY_BYTES = h2.DEFAULT_WINDOW  # more needs a known key, and waits for its turn
_MAX_LARGE_BODIES = 4
_SETTINGS = h2.settings(
    (
        (h2.MAX_CONCURRENT_STREAMS, MAX_STREAMS),
        (h2.MAX_HEADER_LIST_SIZE, MAX_HEAD_BYTES),
        (h2.NO_RFC7540_PRIORITIES, 1),
    )
)


class Inflow:
    """`write` sends frames. Bodies have at most `max_body_bytes`."""

    def __init__(self, write: Callable[[bytes], None], max_body_bytes: int) -> None:
        self._write, self._max_body_bytes = write, max_body_bytes
        self._window = h2.DEFAULT_WINDOW + max_body_bytes
        self._credit = 0
        self._waiting: deque[Stream] = deque()  # streams that have a large body, in order
        self._under_way = 0

    def opening(self) -> bytes:
        """The settings, and the frame that opens the shared window as far as this counts it."""
        return _SETTINGS + h2.window_update(0, self._max_body_bytes)

    def received(self, size: int) -> None:
        """Count data, padding included. Raises ProtocolError."""
        self._window -= size
        self._credit += size
        if self._window < 0:
            raise h2.ProtocolError("more data than the window allows", h2.FLOW_CONTROL_ERROR)
        if self._credit >= h2.DEFAULT_WINDOW // 2:
            self._write(h2.window_update(0, self._credit))
            self._window += self._credit
            self._credit = 0

    def is_short(self, stream: Stream) -> bool:
        """Whether so much of the body has come that the rest needs a wider window."""
        return not stream.large and stream.receive_window < SMALL_BODY_BYTES // 2

    def add(self, stream: Stream) -> None:
        """Open the window of a stream for the whole of its body, now or when it is its turn."""
        stream.large = True
        self._waiting.append(stream)
        self._begin()

    def end(self, stream: Stream) -> None:
        """Its body has come, or is not wanted any more. Harmless a second time."""
        if stream.uploading:
            stream.uploading = False
            self._under_way -= 1
            self._begin()

    def _begin(self) -> None:
        while self._waiting and self._under_way < _MAX_LARGE_BODIES:
            stream = self._waiting.popleft()
            if stream.open and not stream.complete and not stream.refused:
                self._under_way += 1
                stream.uploading = True
                stream.receive_window += self._max_body_bytes
                self._write(h2.window_update(stream.identity, self._max_body_bytes))
