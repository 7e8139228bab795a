"""Small pools and requests for tests of the simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Observation
from forecasting.simulate.profile import ReplicaProfile

QUICK = ReplicaProfile(prefill_s=0.01, prefill_token_s=0.0001, step_s=0.02, step_sequence_s=0.001, max_sequences=8)
WITHIN_A_SECOND = Objective(0.95, ttft_s=1.0)


def requests(*rows: tuple[float, int, int]) -> Arrivals:
    """Arrivals of (seconds, input tokens, output tokens)."""
    at, read, written = zip(*rows, strict=True) if rows else ((), (), ())
    return Arrivals(np.array(at, dtype=float), np.array(read, dtype=np.int32), np.array(written, dtype=np.int32))


def poisson(rate_rps: float, count: int, service_s: Sequence[float] | np.ndarray, seed: int = 1) -> Arrivals:
    """Poisson arrivals of requests without an answer beyond the first token, whose prompts take so long at 1 µs a token."""
    at = np.cumsum(np.random.default_rng(seed).exponential(1 / rate_rps, count))
    return Arrivals(at, np.rint(np.asarray(service_s) * 1e6).astype(np.int32), np.ones(count, dtype=np.int32))


def seen(**values: float) -> Observation:
    """An observation of a pool with a ready replica and nothing to do, but for these values."""
    idle = Observation(
        time_s=0.0,
        window_s=60.0,
        arrived=0.0,
        input_tokens=0.0,
        output_tokens=0.0,
        answered=0.0,
        in_flight=0.0,
        running=0.0,
        waiting=0.0,
        waiting_now=0,
        ttft_s=float("nan"),
        itl_s=float("nan"),
        ready=1,
        starting=0,
        draining=0,
        wanted=1,
    )
    return idle._replace(**values)


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
