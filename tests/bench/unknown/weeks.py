"""Ten weeks of constant demand: does the count stay what a benchmark says, though traffic no longer shows what a replica carries?

A pool is measured every hour from the last seven days, as the worker does, and scaled every five minutes, as the controller does. In the
third week something else than the load makes requests slow at noon of one day.
"""

import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import numpy as np

from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import Memory
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.capacity_memory import chosen_capacity, still_known
from forecasting.capacity.pool_capacity import replicas_of
from forecasting.capacity.replica_capacity import LoadWindows, Measured, measured_capacity
from tests.bench.figures import Figure, say
from tests.support.policy.cases import POOL, pool, scaling, seen

WEEKS, HOURS_OF_WEEK, WINDOW_S, WINDOWS_OF_HOUR = 10, 168, 300, 12
TARGET, UTILISATION = 0.99, 0.8
CARRIES_RPS = 4.0
"""What a replica truly carries: above it a tenth of the requests is bad for each tenth more."""
INCIDENT_HOURS = range(2 * HOURS_OF_WEEK + 59, 2 * HOURS_OF_WEEK + 63)
START_DAY = 20_000


@dataclass
class Pool:
    """Its windows of the last seven days, and what is known from them."""

    draw: np.random.Generator
    demand_rps: float
    replicas: int
    benchmark: ReplicaCapacity | None
    rows: deque[tuple[int, ...]]
    measured: Measured = field(default_factory=lambda: Measured(None, ""))

    def hour(self, number: int) -> None:
        for _ in range(WINDOWS_OF_HOUR):
            requests = int(self.draw.poisson(self.demand_rps * WINDOW_S))
            over = max(0.0, requests / (self.replicas * WINDOW_S * CARRIES_RPS) - 1)
            bad = 0.5 if number in INCIDENT_HOURS else min(1.0, 0.002 + over)
            good = requests - int(self.draw.binomial(requests, bad))
            self.rows.append((START_DAY + number // 24, requests, self.replicas, requests, good))

    def capacity(self) -> ReplicaCapacity | None:
        day, requests, replicas, judged, good = np.array(self.rows, dtype=np.int64).T
        nothing = np.zeros(len(day))
        windows = LoadWindows(
            WINDOW_S, day, requests, replicas, judged, good, *[nothing] * (len(fields(LoadWindows)) - 6)
        )
        self.measured = still_known(self.measured.capacity, measured_capacity(windows, TARGET))
        return chosen_capacity(self.measured.capacity, self.benchmark, None)


def counts(
    seed: int, replicas: int, demand_rps: float, benchmark_rps: float | None, weeks_long: int = WEEKS
) -> list[int]:
    """The replicas at the end of each week."""
    benchmark = ReplicaCapacity(benchmark_rps, "benchmark", shown_on=START_DAY) if benchmark_rps else None
    its = Pool(
        np.random.default_rng(seed), demand_rps, replicas, benchmark, deque(maxlen=HOURS_OF_WEEK * WINDOWS_OF_HOUR)
    )
    policies, memory, weeks = [scaling(max=1_000, reactive={"utilisation": UTILISATION})], Memory(), []
    now_ms = START_DAY * 86_400_000
    draw = random.Random(seed)
    for hour in range(weeks_long * HOURS_OF_WEEK):
        its.hour(hour)
        capacity = its.capacity()
        for _ in range(WINDOWS_OF_HOUR):
            now_ms += WINDOW_S * 1_000
            arrived_rps = draw.gauss(demand_rps, math.sqrt(demand_rps / WINDOW_S))
            facts = pool(
                arrived_rps=arrived_rps,
                wanted=its.replicas,
                ready=its.replicas,
                slots=None,
                capacity_rps=capacity and capacity.requests_per_s,
                capacity_is_lower_bound=bool(capacity and capacity.lower_bound),
            )
            decision = decide(seen(facts, now_ms=now_ms), policies, memory)
            memory = decision.memory
            wanted = decision.targets[POOL].wanted
            its.replicas = its.replicas if wanted is None else wanted
        if (hour + 1) % HOURS_OF_WEEK == 0:
            weeks.append(its.replicas)
    return weeks


def fresh(demand_rps: float) -> int:
    """What a benchmark of now says."""
    return replicas_of(demand_rps / UTILISATION, ReplicaCapacity(CARRIES_RPS, "benchmark"))


def run(seed: int) -> Iterator[Figure]:
    demand_rps = 64.0
    known = counts(seed, fresh(demand_rps), demand_rps, CARRIES_RPS)
    say(f"{fresh(demand_rps)} replicas by a fresh benchmark; week by week, benchmarked once: {known}")
    drift = max(abs(count / fresh(demand_rps) - 1) for count in known)
    yield Figure("capacity.drift_pct", 100 * drift, "%", f"worst of {WEEKS} weeks, benchmarked before the first")
    unknown = counts(seed, 26, 16.0, None)
    say(f"{fresh(16.0)} replicas by a benchmark that nobody makes; week by week: {unknown}")
    growth = max(count / 26 - 1 for count in unknown)
    yield Figure(
        "capacity.growth_pct", 100 * growth, "%", f"worst of {WEEKS} weeks, from 26 replicas without a benchmark"
    )
