"""Chooses a pool by weight, and then its replica with the fewest requests in flight."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from inference.core.snapshot import Route


class Load(Protocol):
    """What routing sees of a replica."""

    @property
    def in_flight(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def health(self) -> "Health": ...


class Health:
    """The health of a replica. It starts `unknown`; a call that cannot reach it makes it `down`, and only a probe makes it
    `up` again. Times are seconds on any monotonic clock.

    A call that fails in another way adds health debt, which counts like calls in flight. Without it, a replica that
    fails fast would always have the fewest and get all requests. Each failure doubles the debt and adds one, each
    answer takes 30 % off, and it halves every 5 s: a replica that fails every call is tried about once in 5 s while
    others serve.
    """

    __slots__ = ("_debt", "_debt_at_s", "failures", "slow", "state")
    FIRST_PROBE_S = 0.1
    SLOWEST_PROBE_S = 2.0
    SLOW_PROBES = 3  # in a row without an answer: then it is down
    DEBT_HALVES_S = 5.0
    MOST_DEBT = 1024.0  # calls; forgotten after 55 s at most

    def __init__(self) -> None:
        self.state = "unknown"
        self.failures = 0
        self.slow = 0
        self._debt = 0.0
        self._debt_at_s = 0.0

    def failed(self) -> None:
        self.state = "down"
        self.failures += 1

    def answered(self) -> None:
        self.state = "up"
        self.failures = self.slow = 0

    def delayed(self) -> None:
        """A probe was not answered in time."""
        self.slow += 1
        if self.slow >= self.SLOW_PROBES:
            self.failed()

    def next_probe_s(self, interval_s: float) -> float:
        """The time until the next probe: 100 ms after a failure, doubling to 2 s; `interval_s` while it is up."""
        if self.state == "up" and not self.slow:
            return interval_s
        return min(self.SLOWEST_PROBE_S, self.FIRST_PROBE_S * 2.0 ** max(0, self.failures - 1))

    def debt(self, now_s: float) -> float:
        """The health debt, in calls in flight."""
        if not self._debt:
            return 0.0
        left: float = self._debt * 0.5 ** ((now_s - self._debt_at_s) / self.DEBT_HALVES_S)
        if left < 0.5:
            self._debt = left = 0.0
        return left

    def call_failed(self, now_s: float) -> None:
        self._debt, self._debt_at_s = min(self.MOST_DEBT, 2 * self.debt(now_s) + 1), now_s

    def call_answered(self, now_s: float) -> None:
        if self._debt:
            self._debt, self._debt_at_s = 0.7 * self.debt(now_s), now_s


_Replica = TypeVar("_Replica", bound=Load)
_RANK = {"up": 0, "unknown": 1}


def choose_route(routes: Sequence[Route], available: Callable[[str], bool], draw: float) -> Route:
    """The route whose share of the weights contains `draw` (in [0, 1)), among those whose pool is available; among all
    routes if none is.

    While the route that `draw` falls on is available, the state of the others does not matter.
    """
    chosen = _by_weight(routes, draw)
    if chosen is not None and available(chosen.pool):
        return chosen
    rest = [route for route in routes if available(route.pool)]
    # A route of weight 0 gets no traffic while others serve. It is still better than none.
    return _by_weight(rest, draw) or (rest[0] if rest else chosen or routes[0])


def _by_weight(routes: Sequence[Route], draw: float) -> Route | None:
    total = sum(route.weight for route in routes)
    if total <= 0:
        return None
    left = draw * total
    for route in routes:
        left -= route.weight
        if left < 0:
            return route
    return next(route for route in reversed(routes) if route.weight > 0)


def choose_replica(replicas: Sequence[_Replica], tried: Sequence[_Replica], turn: int, now_s: float) -> _Replica | None:
    """The healthiest replica with the fewest calls in flight, preferably one whose server takes another call. `turn` breaks
    ties in rotation. None if all are down or were tried.
    """
    best: _Replica | None = None
    best_rank = (9, False, 0.0)
    size = len(replicas)
    for offset in range(size):
        replica = replicas[(turn + offset) % size]
        health = replica.health
        if health.state == "down" or replica in tried:
            continue
        rank = (_RANK[health.state], replica.full, replica.in_flight + health.debt(now_s))
        if rank < best_rank:
            best, best_rank = replica, rank
    return best
