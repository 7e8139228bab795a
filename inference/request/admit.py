"""Who may be in flight. A bounded number of places, and a bounded queue for them, best priority first and then first
come.
"""

import asyncio
from collections import OrderedDict


class QueueFullError(Exception):
    """No place, and no place to wait for one, or somebody of a better priority took the latter."""


class Admission:
    """`priority` 1 is served before 2. Limits may change at any time; a lower one lets those in flight finish.

    When the queue is full, a better priority takes the place of the one that waits with the worst, and of those of the
    one that came last.
    """

    def __init__(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight = max_in_flight
        self.max_waiting = max_waiting
        self.in_flight = 0
        self._queues: dict[int, OrderedDict[asyncio.Future[None], None]] = {}  # by priority, in order; none is empty
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

    def _displace(self, priority: int) -> None:
        """Make room for `priority` in a full queue. Raises QueueFullError where nobody in it is worse."""
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
        """It waits no longer. Harmless if it is forgotten already."""
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
