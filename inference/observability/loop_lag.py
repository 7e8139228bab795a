"""Measures how late the event loop is: what one request does on it, all others wait for."""

import asyncio
from bisect import bisect_left

EVERY_S = 0.01
EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper edges of the buckets, seconds."""


class LoopLag:
    """`counts` are of the buckets, the last of what is above all edges; `total_s` is the sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_S) + 1)
        self.total_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        assert self._loop is not None
        self._due_s = self._loop.time() + EVERY_S
        self._timer = self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        assert self._loop is not None
        late_s = max(0.0, self._loop.time() - self._due_s)
        self.counts[bisect_left(EDGES_S, late_s)] += 1
        self.total_s += late_s
        self._next()
