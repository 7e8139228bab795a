"""Perfect foresight: what a policy could do at best that knows all requests before they come."""

from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Observation
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay


@dataclass(slots=True)
class Oracle:
    """At each moment as many replicas as the work of that step needs, ordered their cold start and a step before.

    `load` is the share of its time that a replica may be used and still keep the objective: `capacity_rps` × the mean of
    `ReplicaProfile.busy_s`. The comparison is that of the offline optimum of online algorithms (as in Lin, Wierman et al., Dynamic
    Right-Sizing for Power-Proportional Data Centers, IEEE/ACM ToN 2013, section III), with a cold start in place of a switching cost.
    """

    profile: ReplicaProfile
    load: float
    cold_start_s: float
    tick_s: float = 60.0
    name: str = "oracle"
    _replicas: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        busy_s = self.profile.busy_s(
            arrivals.input_tokens.astype(np.float64), arrivals.output_tokens.astype(np.float64)
        )
        step = (arrivals.arrival_s / self.tick_s).astype(np.int64)
        work_s = np.bincount(step, weights=busy_s, minlength=1)
        needed = np.ceil(work_s / self.tick_s / self.load - 1e-9).astype(np.int64)
        ahead = ceil(self.cold_start_s / self.tick_s) + 2
        padded = np.concatenate([needed, np.full(ahead, needed[-1])])
        self._replicas = np.lib.stride_tricks.sliding_window_view(padded, ahead).max(axis=1)

    def decide(self, seen: Observation) -> int:
        return int(self._replicas[min(round(seen.time_s / self.tick_s), len(self._replicas) - 1)])


def least_oracle(
    arrivals: Arrivals, pool: Pool, objective: Objective, *, tick_s: float = 60.0, rounds: int = 8
) -> Oracle:
    """The oracle with the highest load that still keeps the objective over these requests, by bisection with a replay per round.

    Where even a tenth of a replica's time is too much, it is the oracle of that load.
    """
    low, high = 0.1, 1.5
    for _ in range(rounds):
        middle = (low + high) / 2
        if replay(arrivals, pool, Oracle(pool.profile, middle, max(pool.cold_start_s), tick_s), objective).kept:
            low = middle
        else:
            high = middle
    return Oracle(pool.profile, low, max(pool.cold_start_s), tick_s)
