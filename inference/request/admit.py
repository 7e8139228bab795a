"""Limits the requests in flight in a pool: a number of places, and a bounded queue for them."""

import asyncio
from collections import OrderedDict

from inference.core.errors import RetryableError


class QueueFullError(RetryableError):
    """There is no place in the queue, or a request of a better priority has taken it."""


class Admission:
    """The queue is served by priority, 1 before 2, and then first come, first served. Limits may change at any time;
    requests in flight above a lower limit finish.

    When the queue is full, a new request displaces the one with the worst priority, if that is worse than its own. Of
    several, the newest is displaced.
    """

    def __init__(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight = max_in_flight
        self.max_waiting = max_waiting
        self.in_flight = 0
        self._queues: dict[int, OrderedDict[asyncio.Future[None], None]] = {}  # by priority; no queue is empty
        self._waiting = 0

    @property
    def waiting(self) -> int:
        return self._waiting

    def try_acquire(self) -> bool:
        """Take a place if one is free and no request waits."""
        if self.in_flight < self.max_in_flight and not self._waiting:
            self.in_flight += 1
            return True
        return False

    async def acquire(self, priority: int, timeout_s: float) -> None:
        """Take a place, waiting for at most `timeout_s`. Raises QueueFullError, TimeoutError."""
        if self.try_acquire():
            return
        if self._waiting >= self.max_waiting:
            self._displace(priority)
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._queues.setdefault(priority, OrderedDict())[place] = None
        self._waiting += 1
        timer = loop.call_later(timeout_s, self._end, priority, place, TimeoutError)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._forget(priority, place)
            elif place.exception() is None:
                self.release()  # it got its place in the same turn as it was cancelled
            raise
        finally:
            timer.cancel()

    def release(self) -> None:
        """Give a place back."""
        self.in_flight -= 1
        self._hand_out()

    def resize(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight, self.max_waiting = max_in_flight, max_waiting
        self._hand_out()

    def _displace(self, priority: int) -> None:
        """Make room for `priority` in a full queue. Raises QueueFullError if no waiting request has a worse one."""
        worst = max(self._queues, default=0)
        if worst <= priority:
            raise QueueFullError
        self._end(worst, next(reversed(self._queues[worst])), QueueFullError)

    def _hand_out(self) -> None:
        while self._waiting and self.in_flight < self.max_in_flight:
            best = min(self._queues)
            place = next(iter(self._queues[best]))
            self._forget(best, place)
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

    def _forget(self, priority: int, place: asyncio.Future[None]) -> None:
        """Remove `place` from its queue, if it is still there."""
        queue = self._queues.get(priority)
        if queue is not None and place in queue:
            del queue[place]
            self._waiting -= 1
            if not queue:
                del self._queues[priority]

    def _end(self, priority: int, place: asyncio.Future[None], error: type[Exception]) -> None:
        self._forget(priority, place)
        if not place.done():
            place.set_exception(error())
