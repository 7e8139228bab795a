"""What a policy sees of the pool, and what it answers; the policy without a choice."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from forecasting.simulate.arrivals import Arrivals


class Observation(NamedTuple):
    """A pool over the `window_s` seconds that end at `time_s`, and how it stands then. Times in seconds, means over the window."""

    time_s: float
    window_s: float
    arrived: float
    """Requests that came."""
    input_tokens: float
    """Of all that came, as are `output_tokens`."""
    output_tokens: float
    answered: float
    in_flight: float
    """Mean of running and waiting requests."""
    running: float
    waiting: float
    waiting_now: int
    ttft_s: float
    """Mean of the first tokens of this window, NaN without any."""
    itl_s: float
    """Mean time between the tokens of the requests that ended, NaN without any."""
    ready: int
    starting: int
    draining: int
    wanted: int
    """What the policy answered last: Kubernetes' `spec.replicas`."""

    @property
    def rate_rps(self) -> float:
        return self.arrived / self.window_s if self.window_s > 0 else 0.0


class Policy(Protocol):
    """Says how many replicas there should be. A policy may keep what it saw; a replay begins with `begin`."""

    @property
    def name(self) -> str: ...

    @property
    def tick_s(self) -> float:
        """How often it is asked."""

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        """A replay of these requests begins with so many ready replicas. Only an oracle may look at the requests."""

    def decide(self, seen: Observation) -> int:
        """How many replicas should be starting or ready."""


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
