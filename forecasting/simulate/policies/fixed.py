"""Policies without a choice: a fixed number of replicas, or a schedule made beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.policies.policy import Observation


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always so many replicas."""

    replicas: int
    tick_s: float = 60.0

    @property
    def name(self) -> str:
        return f"fixed {self.replicas}"

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        pass

    def decide(self, seen: Observation) -> int:
        return self.replicas


@dataclass(frozen=True, slots=True)
class Schedule:
    """`replicas[i]` are wanted from i * tick_s on, the last of them to the end. A warm plan is such a schedule."""

    replicas: Sequence[int]
    tick_s: float
    name: str = "schedule"

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        pass

    def decide(self, seen: Observation) -> int:
        return self.replicas[min(int(seen.time_s / self.tick_s + 1e-6), len(self.replicas) - 1)]
