"""Where a request goes: first a pool by weight, then the replica of it with the least to do. Pure."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from inference.snapshot import Route


class Load(Protocol):
    """What routing sees of a replica."""

    @property
    def in_flight(self) -> int: ...
    @property
    def health(self) -> "Health": ...


class Health:
    """What we believe of a replica: it starts `unknown`, a call that cannot reach it makes it `down`, and only a
    probe makes it `up` again.
    """

    __slots__ = ("failures", "state")
    FIRST_PROBE_S = 0.1
    SLOWEST_PROBE_S = 2.0

    def __init__(self) -> None:
        self.state = "unknown"
        self.failures = 0

    def failed(self) -> None:
        self.state = "down"
        self.failures += 1

    def answered(self) -> None:
        self.state = "up"
        self.failures = 0

    def next_probe_s(self, interval_s: float) -> float:
        """When to ask again: soon after a failure (100 ms, doubling to 2 s), at leisure while all is well."""
        if self.state == "up":
            return interval_s
        return min(self.SLOWEST_PROBE_S, self.FIRST_PROBE_S * 2.0 ** max(0, self.failures - 1))


_Replica = TypeVar("_Replica", bound=Load)
_RANK = {"up": 0, "unknown": 1}


def choose_route(routes: Sequence[Route], available: Callable[[str], bool], draw: float) -> Route:
    """The route whose share of the weights holds `draw` (in [0, 1)), among those whose pool is available; among all
    if none is.

    A draw that names an available route gives the same one whatever the others' state, as far as the weights allow.
    """
    chosen = _by_weight(routes, draw)
    if chosen is not None and available(chosen.pool):
        return chosen
    rest = [route for route in routes if available(route.pool)]
    # Among what is left, weight 0 is better than nothing: it was kept out of traffic, not out of service.
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


def choose_replica(replicas: Sequence[_Replica], tried: Sequence[_Replica], turn: int) -> _Replica | None:
    """The least loaded of the healthiest, `turn` breaking ties in rotation; None when all are down or were tried."""
    best: _Replica | None = None
    best_rank = (9, 0)
    size = len(replicas)
    for offset in range(size):
        replica = replicas[(turn + offset) % size]
        if replica.health.state == "down" or replica in tried:
            continue
        rank = (_RANK[replica.health.state], replica.in_flight)
        if rank < best_rank:
            best, best_rank = replica, rank
    return best
