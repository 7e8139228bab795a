"""Replays requests against a pool under a policy, and says how it went."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite, nan

import numpy as np

from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.engine import advance
from forecasting.simulate.outcome import Objective, Outcome, outcome_of
from forecasting.simulate.policy import Observation, Policy
from forecasting.simulate.profile import ReplicaProfile
from forecasting.simulate.scale import scale
from forecasting.simulate.state import State, Totals, new_state

LAST_S = 3_600.0
"""How long requests that are in flight at the end may still take."""
MAX_REPLICAS = 10_000


class ReplayError(ValueError):
    """The replay cannot be made as it was described. Permanent: the message names the field and what it must be."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The pool that a replay scales.

    `cold_start_s` are measured times from a replica's creation to its readiness, which new replicas take in turn. `min_replicas`
    and `max_replicas` bound every policy; `start_replicas` are ready at the start (`min_replicas` where None). A replica has at
    most `max_in_flight` requests (0 is no limit), others wait in the pool until it has room. A request goes to the ready replica
    with the fewest in flight.
    """

    profile: ReplicaProfile
    cold_start_s: tuple[float, ...] = (0.0,)
    min_replicas: int = 1
    max_replicas: int = 100
    start_replicas: int | None = None
    max_in_flight: int = 0

    def __post_init__(self) -> None:
        if not self.cold_start_s or not all(isfinite(value) and value >= 0 for value in self.cold_start_s):
            raise ReplayError(
                "cold_start_s is empty or has values below 0: give at least one measured cold start in seconds"
            )
        if not 0 <= self.min_replicas <= self.max_replicas <= MAX_REPLICAS or self.max_replicas < 1:
            raise ReplayError(
                f"min_replicas is {self.min_replicas} and max_replicas is {self.max_replicas}: "
                f"give a minimum of 0 or more and a maximum that is not below it, from 1 to {MAX_REPLICAS:,}"
            )
        if self.max_in_flight < 0:
            raise ReplayError(f"max_in_flight is {self.max_in_flight}: give 0 for no limit, or more")

    def bounded(self, replicas: int) -> int:
        return max(self.min_replicas, min(replicas, self.max_replicas))


def replay(
    arrivals: Arrivals,
    pool: Pool,
    policy: Policy,
    objective: Objective,
    *,
    duration_s: float | None = None,
    step_s: float = 60.0,
    progress: Callable[[float], None] = lambda share: None,
) -> Outcome:
    """Replay `arrivals` against `pool` under `policy`, for `duration_s` or until the tick of the last arrival has ended.

    Requests in flight at the end have another hour. The outcome has a row per `step_s`, made a multiple of the policy's
    `tick_s`. `progress` is called with the share done, about 100 times. Equal input gives equal output. Raises ReplayError.
    """
    tick_s = policy.tick_s
    if not (isfinite(tick_s) and tick_s > 0):
        raise ReplayError(f"tick_s of {policy.name} is {tick_s}: give the seconds between its decisions")
    if duration_s is None:
        duration_s = float(arrivals.arrival_s[-1]) if len(arrivals) else tick_s
    if not (isfinite(duration_s) and duration_s >= 0):
        raise ReplayError(f"duration_s is {duration_s}: give how many seconds to replay")
    ticks = max(1, ceil(duration_s / tick_s - 1e-9))
    per_row = max(1, round(step_s / tick_s))
    per_report = max(1, ticks // 100)
    start = pool.bounded(pool.min_replicas if pool.start_replicas is None else pool.start_replicas)
    state = _start(arrivals, pool, start)
    policy.begin(arrivals, start)
    before = Totals._make(state.pool.item())
    wanted = np.empty(ticks + 1, dtype=np.int32)
    wanted[0] = chosen = start
    rows = [before]
    for tick in range(1, ticks + 1):
        advance(state, tick * tick_s)
        now = Totals._make(state.pool.item())
        chosen = pool.bounded(policy.decide(_observation(before, now, tick_s, chosen)))
        if chosen != now.ready + now.starting:
            scale(state, chosen)
        wanted[tick] = chosen
        before = now
        if tick % per_row == 0 or tick == ticks:
            rows.append(now)
        if tick % per_report == 0:
            progress(tick / ticks)
    advance(state, ticks * tick_s + LAST_S)
    return outcome_of(policy, arrivals, state.requests, rows, per_row * tick_s, wanted, pool.profile, objective)


def _start(arrivals: Arrivals, pool: Pool, replicas: int) -> State:
    """The pool with its first replicas, which are ready at once."""
    state = new_state(
        arrivals,
        pool.profile,
        max_replicas=pool.max_replicas,
        cold_start_s=np.zeros(1),
        max_in_flight=pool.max_in_flight,
    )
    scale(state, replicas)
    state.pool["starts"] = 0
    advance(state, 0.0)
    return state._replace(cold_start_s=np.array(pool.cold_start_s, dtype=np.float64))


def _observation(before: Totals, now: Totals, window_s: float, wanted: int) -> Observation:
    running = (now.running_s - before.running_s) / window_s
    waiting = (now.waiting_s - before.waiting_s) / window_s
    first = now.first_tokens - before.first_tokens
    decoded = now.decoded_tokens - before.decoded_tokens
    return Observation(
        now.now_s,
        window_s,
        now.arrived - before.arrived,
        now.input_tokens - before.input_tokens,
        now.output_tokens - before.output_tokens,
        now.answered - before.answered,
        running + waiting,
        running,
        waiting,
        now.waiting,
        (now.ttft_sum_s - before.ttft_sum_s) / first if first else nan,
        (now.decode_sum_s - before.decode_sum_s) / decoded if decoded else nan,
        now.ready,
        now.starting,
        now.draining,
        wanted,
    )
