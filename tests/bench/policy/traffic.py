"""Requests for the replays: a trace's rates on a pool of a dozen replicas, drawn anew by each seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deploy.local.models.timing import TIMINGS
from forecasting.calendar import DAY_S
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.pool_capacity import replicas_of
from forecasting.series import Series, resampled
from forecasting.simulate.arrivals import Arrivals, Lengths, from_rates
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policy import Fixed
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.replay import Pool, replay
from tests.bench.loads.demand_traces import demands, files
from tests.support.forecasting.simulated_capacity import capacity_rps

OBJECTIVE = Objective(0.995, ttft_s=2.0, itl_s=0.2)
"""The latencies of MLPerf Inference for a Llama 2 70B server (v4.0): first token within 2 s, 200 ms a token."""
LENGTHS = Lengths.around(1_000, 600)
BURSTINESS = 1.5
"""Coefficient of variation of the intervals (ServeGen, arXiv 2505.09999)."""
MEAN_REPLICAS = 12
"""What the traces are scaled to: enough for a replica to be a small step, few enough to replay a week in seconds."""
SLOTS = 16
MAX_REPLAYED_S = 14 * DAY_S
"""Of a longer trace the last of it: each request is one, and two years have hundreds of millions."""
DEMAND_STEP_S = 300
"""The product's step of demand (docs/demand.md)."""


def profile() -> ReplicaProfile:
    timing = TIMINGS["A/h100-80gb/tp4"]
    return ReplicaProfile(
        timing.prefill_ms / 1e3,
        timing.prefill_token_ms / 1e3,
        timing.decode_ms / 1e3,
        timing.decode_sequence_ms / 1e3,
        max_sequences=SLOTS,
    )


@lru_cache
def capacity(replicas: int = MEAN_REPLICAS) -> ReplicaCapacity:
    """What a replica of so large a pool carries at the objective, as traffic would measure it."""
    rps = capacity_rps(profile(), LENGTHS, OBJECTIVE, replicas=replicas, burstiness=BURSTINESS)
    pool = Pool(profile(), min_replicas=replicas, max_replicas=replicas)
    steady = from_rates(Series(0, 60, np.full(60, rps * replicas)), LENGTHS, burstiness=BURSTINESS)
    outcome = replay(steady, pool, Fixed(replicas), OBJECTIVE)
    batch = float(outcome.steps.running.mean()) / replicas
    return ReplicaCapacity(rps, "ledger", batching_factor=batch, slots=SLOTS, measured_replicas=replicas)


def busiest(demand: Series, until_s: int, of_replica: ReplicaCapacity) -> int:
    """The replicas of the busiest hour until then (step, of less than an hour): at that load a ledger measures what a replica carries."""
    known = demand.until(until_s // demand.step_s)
    hours = resampled(known, 3_600).values if until_s >= 7_200 else known.values
    return max(1, replicas_of(float(np.nanmax(hours)), of_replica))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Rates in requests/s, scaled so that MEAN_REPLICAS carry their mean. `half_s` ends its first half."""

    name: str
    rates: Series

    @property
    def half_s(self) -> int:
        return len(self.rates) * self.rates.step_s // 2 // DEMAND_STEP_S * DEMAND_STEP_S

    @property
    def end_s(self) -> int:
        return len(self.rates) * self.rates.step_s // DEMAND_STEP_S * DEMAND_STEP_S

    def requests(self, seed: int) -> Arrivals:
        """Of the whole trace; `rates` begins at 0 then."""
        return from_rates(Series(0, self.rates.step_s, self.rates.values), LENGTHS, burstiness=BURSTINESS, seed=seed)


def traces(of_replica: ReplicaCapacity) -> Iterator[Trace]:
    """Those of TRACE, or all of the shared folder. Raises BenchError."""
    for known in demands(files()):
        steps, rps = known.series.step_s, MEAN_REPLICAS * of_replica.requests_per_s
        series = known.series.last(MAX_REPLAYED_S // steps)
        scaled = series.values * rps / np.nanmean(series.values)
        yield Trace(known.name, Series(series.start_s, series.step_s, scaled))


def part(requests: Arrivals, from_s: float, to_s: float) -> Arrivals:
    """Those that arrive between two times; `from_s` becomes 0."""
    first, last = np.searchsorted(requests.arrival_s, [from_s, to_s])
    return Arrivals(
        requests.arrival_s[first:last] - from_s, requests.input_tokens[first:last], requests.output_tokens[first:last]
    )


def demand(requests: Arrivals, trace: Trace) -> Series:
    """The rates as the product counts them, requests/s by step. Gaps of a trace were filled, so there are none."""
    steps = trace.end_s // DEMAND_STEP_S
    counts = np.bincount((requests.arrival_s // DEMAND_STEP_S).astype(np.int64), minlength=steps)[:steps]
    start_s = trace.rates.start_s // DEMAND_STEP_S * DEMAND_STEP_S
    return Series(start_s, DEMAND_STEP_S, counts / DEMAND_STEP_S)
