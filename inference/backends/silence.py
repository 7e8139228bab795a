"""Bounds the time for which a server sends nothing in the middle of an answer."""

import asyncio
import time
from types import TracebackType

from inference.backends.port import Stream
from inference.core.backend_errors import SlowError
from inference.tasks import Deadline


class Silence(Deadline):
    """Raises SlowError where `stream` waits for its server for `most_ms` on end. Its events cost nothing: the timer looks only once the
    time may be over.
    """

    __slots__ = ("_most_ms", "_stream")

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: Stream, most_ms: int) -> None:
        super().__init__(loop, loop.time() + most_ms / 1000)
        self._stream, self._most_ms = stream, most_ms

    def _end(self) -> None:
        now_s = time.monotonic()
        left_s = self._most_ms / 1000 - (now_s - (self._stream.awaited_since_s or now_s))
        if left_s <= 0:
            super()._end()
        else:
            self.move(self._loop.time() + left_s)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        except TimeoutError:
            raise SlowError(
                f"it sent nothing for {self._most_ms} ms in the middle of its answer", self._most_ms
            ) from None
