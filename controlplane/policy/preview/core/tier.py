"""Follows a policy of the API tier through what was recorded of it, with the count that the policy would have set."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import structs

from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation, PoolFacts
from controlplane.policy.core.spec import InForce, ScalingSpec

HOUR_MS = 3_600_000
HOURS = 24


class TierWalk:
    """`see` what was recorded by time; `for_ms` says how long it held."""

    def __init__(self, policy: InForce, spec: ScalingSpec, start: int) -> None:
        self._policy, self._target = policy, spec.target
        self._count, self._memory = start, Memory()
        self._spent_ms: list[float] = [0.0] * HOURS
        self._counted_ms: list[float] = [0.0] * HOURS
        self._most: dict[int, int] = defaultdict(int)
        self.changes = 0
        self.most = start

    def see(self, now_ms: int, facts: PoolFacts, for_ms: int) -> None:
        """Replicas of gateways start within seconds: those that are wanted are ready at the next tick."""
        decision = decide(Observation(now_ms, pools={self._target: self._as_if(facts)}), [self._policy], self._memory)
        self._memory = decision.memory
        wanted = decision.targets[self._target].wanted
        if wanted is not None and wanted != self._count:
            self._count = wanted
            self.changes += 1
        self.hold(now_ms, self._count, for_ms)

    def hold(self, now_ms: int, count: int, for_ms: int) -> None:
        hour = now_ms // HOUR_MS % HOURS
        self._spent_ms[hour] += count * for_ms
        self._counted_ms[hour] += for_ms
        self._most[hour] = max(self._most[hour], count)
        self.most = max(self.most, count)

    def document(self) -> dict[str, Any]:
        """None is an hour of the day (UTC) of which nothing was recorded."""
        return {
            "replica_hours": sum(self._spent_ms) / HOUR_MS,
            "mean_replicas": sum(self._spent_ms) / sum(self._counted_ms) if any(self._counted_ms) else None,
            "most_replicas": self.most,
            "changes": self.changes,
            "mean_by_hour_utc": [
                spent / counted if counted else None
                for spent, counted in zip(self._spent_ms, self._counted_ms, strict=True)
            ],
            "most_by_hour_utc": [self._most.get(hour) for hour in range(HOURS)],
        }

    def _as_if(self, facts: PoolFacts) -> PoolFacts:
        """What would have been seen with this count: the work is the same, and is shared by so many."""
        cpu_use = None
        if facts.cpu_use is not None and facts.ready and self._count:
            cpu_use = min(1.0, facts.cpu_use * facts.ready / self._count)
        return structs.replace(
            facts,
            pool=self._target,
            cpu_use=cpu_use,
            wanted=self._count,
            ready=self._count,
            starting=0,
            pending=0,
            pending_since_ms=None,
            draining=0,
            owner_of_count="weir",
            hpa_min=None,
            hpa_max=None,
            problem="",
            cluster_age_ms=0,
        )


def between(times_ms: Sequence[int], longest_ms: int) -> list[int]:
    """How long each of these moments held: until the next, but no longer than that."""
    gaps = [min(after - before, longest_ms) for before, after in pairwise(times_ms)]
    return [*gaps, 0] if times_ms else []
