"""Limits the requests in flight in a pool: a number of places, and a bounded queue for them that is fair to tiers."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from inference.contract.errors import RetryableError
from inference.contract.snapshot_parts import Tier
from inference.core.fair_queue import Charge, Claim, FairQueue

_Place = asyncio.Future[Charge]


class QueueFullError(RetryableError):
    """There is no place in the queue, or another request has taken it."""


class _Kept(NamedTuple):
    """Places that a tier finds free, because worse ones leave them."""

    tier: str
    priority: int
    places: int


class Admission:
    """`inference.core.fair_queue` says who is next, and whom a full queue refuses. Limits may change at any time; requests
    in flight above a lower limit finish.

    A tier with a reserve gets its next places without waiting: worse ones leave so many free. While requests of the tier wait
    themselves, it is not kept for them: then the queue's shares decide.
    """

    def __init__(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight = max_in_flight
        self.in_flight = 0
        self._tiers: tuple[Tier, ...] = ()
        self._kept: tuple[_Kept, ...] = ()
        # A tier within its share may have as many requests before others as a full queue has.
        self._queue: FairQueue[_Place] = FairQueue(max_waiting, ahead=max_waiting)

    @property
    def max_waiting(self) -> int:
        return self._queue.most

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def room(self, priority: int) -> int:
        """How many more requests of `priority` get a place at once; below zero, how many requests wait for one."""
        return -len(self._queue) or max(0, self._most(priority) - self.in_flight)

    def try_acquire(self, priority: int) -> bool:
        """Take a place if one is free for this priority and no request waits."""
        if not self._queue and self.in_flight < self._most(priority):
            self.in_flight += 1
            return True
        return False

    async def acquire(self, claim: Claim, timeout_s: float) -> Charge | None:
        """Take a place, waiting for at most `timeout_s`. Returns the charge, for `settle`; None where nobody waited, so that nothing
        was charged. Raises QueueFullError, TimeoutError.
        """
        if self.try_acquire(claim.priority):
            return None
        queue = self._queue
        # While worse ones leave a free place alone, the next waits no longer than until it is pushed.
        if self.in_flight >= self._most(claim.priority) and not queue.has_room(claim):
            displaced = queue.displace(claim)
            if displaced is None:
                raise QueueFullError
            _fail(displaced, QueueFullError())
        loop = asyncio.get_running_loop()
        place: _Place = loop.create_future()
        queue.push(claim, place)
        self._hand_out()
        timer = loop.call_later(timeout_s, self._expire, claim, place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.cancelled():
                queue.remove(claim, place)
            elif place.exception() is None:
                self.release()  # it got its place in the same turn as it was cancelled
            raise
        finally:
            timer.cancel()

    def release(self) -> None:
        """Give a place back."""
        self.in_flight -= 1
        self._hand_out()

    def settle(self, claim: Claim, tokens: int, charge: Charge | None) -> None:
        """A request that had a place has used this many tokens, which its tier's share counts instead of what it was charged."""
        if charge is not None:
            self._queue.settle(claim, tokens, charge)

    def reserve(self, tiers: Iterable[Tier]) -> None:
        """Keep places for those of `tiers` that have a reserve."""
        self._tiers = tuple(sorted((tier for tier in tiers if tier.reserved_percent > 0), key=lambda it: it.priority))
        self.resize(self.max_in_flight, self.max_waiting)

    def resize(self, max_in_flight: int, max_waiting: int) -> None:
        self.max_in_flight = max_in_flight
        self._queue.most = self._queue.ahead = max_waiting
        kept, left = list[_Kept](), max(0, max_in_flight - 1)  # the worst tier can always get one
        for tier in self._tiers:
            places = min(left, -(-max_in_flight * tier.reserved_percent // 100))  # rounded up
            left -= places
            kept.append(_Kept(tier.name, tier.priority, places))
        self._kept = tuple(kept)
        self._hand_out()

    def _most(self, priority: int) -> int:
        """With how many in flight a request of `priority` gets no place."""
        room = self.max_in_flight
        for kept in self._kept:
            if kept.priority < priority and not self._queue.waiting_in(kept.tier):
                room -= kept.places
        return room

    def _hand_out(self) -> None:
        while self._queue and self.in_flight < self.max_in_flight:
            place = self._queue.pop_of(lambda priority: self.in_flight < self._most(priority))
            if place is None:
                return
            if not place.done():
                self.in_flight += 1
                place.set_result(self._queue.charge)

    def _expire(self, claim: Claim, place: _Place) -> None:
        self._queue.remove(claim, place)
        _fail(place, TimeoutError())


def _fail(place: _Place, error: Exception) -> None:
    if not place.done():
        place.set_exception(error)
