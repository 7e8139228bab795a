"""Who may be in flight. A bounded number of places, and a bounded queue for them, best priority first and then first
come.
"""

import asyncio
import heapq
from itertools import count


class QueueFullError(Exception):
    """No place, and no place to wait for one."""


class Admission:
    """`priority` 1 is served before 2. Limits may change at any time; a lower one lets those in flight finish."""

    def __init__(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight = max_in_flight
        self.max_waiting = max_waiting
        self.in_flight = 0
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        return self._waiting

    def try_acquire(self) -> bool:
        """Take a place if one is free and nobody waits for it."""
        if self.in_flight < self.max_in_flight and not self._waiting:
            self.in_flight += 1
            return True
        return False

    async def acquire(self, priority: int, timeout_s: float) -> None:
        """Take a place, waiting for at most `timeout_s`. Raises QueueFullError, TimeoutError."""
        if self.try_acquire():
            return
        if self._waiting >= self.max_waiting:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._queue, (priority, next(self._order), place))
        self._waiting += 1
        timer = loop.call_later(timeout_s, self._expire, place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._waiting -= 1
                self._forget_gone()
            elif place.exception() is None:
                self.release()  # the place came in the same turn as the cancellation
            raise
        finally:
            timer.cancel()

    def release(self) -> None:
        """Give the place back; the best of those that wait gets it."""
        self.in_flight -= 1
        self._hand_out()

    def resize(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight, self.max_waiting = max_in_flight, max_waiting
        self._hand_out()

    def _hand_out(self) -> None:
        while self._queue and self.in_flight < self.max_in_flight:
            _, _, place = heapq.heappop(self._queue)
            if not place.done():
                self._waiting -= 1
                self.in_flight += 1
                place.set_result(None)

    def _forget_gone(self) -> None:
        """Those who left stay in the heap until they come up, or until they are most of it."""
        if len(self._queue) > 2 * self._waiting + 16:
            self._queue = [entry for entry in self._queue if not entry[2].done()]
            heapq.heapify(self._queue)

    def _expire(self, place: asyncio.Future[None]) -> None:
        if not place.done():
            self._waiting -= 1
            self._forget_gone()
            place.set_exception(TimeoutError())
