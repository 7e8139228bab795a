"""Counts the requests of running canaries in the background: the ledger answers slower than a tick."""

import time
from collections.abc import Mapping

import msgspec

from controlplane.core.periodic import PeriodicThread
from controlplane.policy.canary_counts import Counter
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.memory import CanaryMemory
from controlplane.policy.core.observation import CanaryCounts
from controlplane.policy.core.spec import InForce
from controlplane.policy.in_force import Policies
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError

EVERY_S = 5.0
MS_PER_S = 1_000


class CanaryReader(PeriodicThread):
    """`counts()` are the newest, each with its age."""

    def __init__(self, store: Store) -> None:
        super().__init__("canaries", self._count, EVERY_S, (StoreError, StoreUnavailableError))
        self._counter = Counter(store)
        self._followed: tuple[tuple[InForce, ...], Mapping[str, CanaryMemory]] = ((), {})
        self._counts: tuple[int, Mapping[str, CanaryCounts]] = (0, {})

    def follow(self, policies: Policies, decision: Decision | None) -> None:
        """Which canaries run, by what the last tick remembers."""
        self._followed = (policies.active, decision.memory.canaries if decision else {})

    def counts(self) -> dict[str, CanaryCounts]:
        at_ms, counts = self._counts
        age_ms = max(0, int(time.time() * MS_PER_S) - at_ms)
        return {name: msgspec.structs.replace(each, age_ms=age_ms) for name, each in counts.items()}

    def _count(self) -> None:
        policies, memory = self._followed
        now_ms = int(time.time() * MS_PER_S)
        self._counts = (now_ms, self._counter.counts(policies, memory, now_ms) if memory else {})
