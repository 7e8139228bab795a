"""The policy without a choice: a fixed number of replicas."""

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
