"""Ways to choose a replica, which `make bench ONLY=routing` compares. All handle failures alike, as the gateway does."""

from collections.abc import Sequence
from typing import Protocol

from inference.core.routing.balance import Balancer, Call
from inference.core.routing.candidates import usable
from inference.core.routing.health import Health
from inference.core.routing.load import ReplicaLoad
from inference.core.routing.need import Need
from inference.core.routing.prefix import PrefixLru, stable_hash
from inference.core.routing.warming import Warming

STALE_S = 0.8


class Seen:
    """A replica as one gateway knows it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.full = self.leaving = False
        self.warming = Warming()
        self.home = stable_hash(str(number).encode())
        self.health = Health()
        self.health.answered()
        self.load = ReplicaLoad()
        self.prefixes = PrefixLru()


class Policy(Protocol):
    name: str
    scrape_s: float

    def choose(self, replicas: Sequence[Seen], need: Need, tried: Sequence[Seen], now_s: float) -> Seen | None: ...

    def begin(self, replica: Seen, need: Need, now_s: float) -> Call: ...


class Weir:
    name, scrape_s = "weir", 0.2

    def __init__(self) -> None:
        self._balancer = Balancer(STALE_S)
        self.choose = self._balancer.choose
        self.begin = self._balancer.begin


class _Other:
    """A policy that needs nothing but what each gateway counts."""

    scrape_s = 0.2

    def __init__(self) -> None:
        self._balancer = Balancer(STALE_S)
        self.begin = self._balancer.begin
        self._turn = 0

    def _candidates(self, replicas: Sequence[Seen], tried: Sequence[Seen], now_s: float) -> list[Seen]:
        """In rotation; those that were busy just now only if all were."""
        left = [replica for replica in usable(replicas, now_s) if replica not in tried]
        left = [replica for replica in left if not replica.health.busy(now_s)] or left
        if not left:
            return []
        self._turn += 1
        turn = self._turn % len(left)
        return left[turn:] + left[:turn]


class RoundRobin(_Other):
    name = "round_robin"

    def choose(self, replicas: Sequence[Seen], need: Need, tried: Sequence[Seen], now_s: float) -> Seen | None:
        return next(iter(self._candidates(replicas, tried, now_s)), None)


class LeastInFlight(_Other):
    name = "least_in_flight"

    def choose(self, replicas: Sequence[Seen], need: Need, tried: Sequence[Seen], now_s: float) -> Seen | None:
        return min(
            self._candidates(replicas, tried, now_s),
            key=lambda replica: replica.load.own + replica.health.debt(now_s),
            default=None,
        )


class LlmD(_Other):
    """llm-d's default profile: queue-scorer 2, kv-cache-utilization-scorer 2, prefix-cache-scorer 3 and max-score-picker with
    ties in rotation (llm-d/llm-d-router, config/charts/routerlib/templates/_config.yaml and the scorers' README files),
    on metrics that are read every 50 ms.
    """

    name, scrape_s = "llm_d", 0.05

    def choose(self, replicas: Sequence[Seen], need: Need, tried: Sequence[Seen], now_s: float) -> Seen | None:
        candidates = self._candidates(replicas, tried, now_s)
        queues = [_waiting(replica) for replica in candidates]
        low, high = min(queues, default=0.0), max(queues, default=0.0)

        def score(replica: Seen) -> float:
            queue = (high - _waiting(replica)) / (high - low) if high > low else 1.0
            signals = replica.load.signals
            kv_use = (signals.kv_use if signals else None) or 0.0
            matched = replica.prefixes.matched(need.blocks) / len(need.blocks) if need.blocks else 0.0
            return 2 * queue + 2 * (1 - kv_use) + 3 * matched

        return max(candidates, key=score, default=None)


def _waiting(replica: Seen) -> float:
    signals = replica.load.signals
    return (signals.waiting if signals else None) or 0.0
