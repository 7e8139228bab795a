"""The body of a request that is handed on while it comes, so that a long one is never kept whole."""

import asyncio
from collections import deque
from collections.abc import Callable

_FULL_BYTES = 256 << 10
"""So much waits at most, and what the socket had read already: then the client is not read from."""


class Incoming:
    """`hold` gets numbers of bytes that are kept, `pace` is called when `full` may have changed."""

    def __init__(self, most: int, hold: Callable[[int], None], pace: Callable[[], None]) -> None:
        self.most = most  # bytes
        self.whole = False
        self.size = 0  # bytes that have come
        self._hold, self._pace = hold, pace
        self._parts: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    @property
    def full(self) -> bool:
        return self._waiting_bytes > _FULL_BYTES

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        self._parts.append(data)
        self._waiting_bytes += len(data)
        self._hold(len(data))
        self._wake()
        if self.full:
            self._pace()

    def end(self) -> None:
        self.whole = True
        self._wake()

    def refuse(self, error: Exception) -> None:
        """What comes cannot be read: whoever reads gets the error."""
        self._error = error
        self._wake()

    async def read(self, timeout_s: float) -> bytes:
        """What has come and was not read yet; empty at the end. Raises TimeoutError where nothing comes for so long, and the error of
        `refuse`.
        """
        async with asyncio.timeout(timeout_s):
            while not self._parts and not self.whole and self._error is None:
                self._changed = asyncio.get_running_loop().create_future()
                await self._changed
        if self._error is not None:
            raise self._error
        data = b"".join(self._parts)
        self._parts.clear()
        was_full, self._waiting_bytes = self.full, 0
        self._hold(-len(data))
        if was_full:
            self._pace()
        return data

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
