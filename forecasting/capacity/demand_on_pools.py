"""Divides demand among pools, and says how heavy its requests are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecasting.capacity.assumptions import (
    HOUR_S,
    MAX_HOURS,
    CapacityError,
    Demand,
    PlanInputs,
    PoolAssumptions,
    ReplicaCapacity,
    TokenMix,
)
from forecasting.capacity.scenario import Scenario
from forecasting.forecast import UNREADABLE, Forecast
from forecasting.series import F64

DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
FINEST_STEP_S = 60
MAX_DEMAND = 1e12
"""Requests or tokens/s that a plan may grow to: more than all the world's."""
NO_TRAFFIC_SHARE = 0.01
"""Below this part of the mean demand, tokens per request are taken of the whole time: of hardly any request they say little."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Steps of the plan: whole hours from `start_s`, in steps of `step_s`, which divides an hour."""

    start_s: int
    step_s: int
    hours: int

    @property
    def per_hour(self) -> int:
        return HOUR_S // self.step_s

    @property
    def end_s(self) -> int:
        return self.start_s + self.hours * HOUR_S

    def times_s(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self.start_s + self.step_s * np.arange(self.hours * self.per_hour, dtype=np.int64)

    def hourly_max(self, values: F64) -> F64:
        peak: F64 = values.reshape(self.hours, self.per_hour).max(axis=1)
        return peak

    def hourly_mean(self, values: F64) -> F64:
        mean: F64 = values.reshape(self.hours, self.per_hour).mean(axis=1)
        return mean


def grid_of(inputs: PlanInputs) -> Grid:
    """The plan's hours, or else those that any of the forecasts touches, in the longest steps that divide theirs and an hour.

    Without forecasts and without `start_s` it begins at the epoch.
    """
    forecasts = [demand.requests for demand in inputs.demands if len(demand.requests)]
    starts = [forecast.start_s for forecast in forecasts]
    start_s = (min(starts, default=0) if inputs.start_s is None else inputs.start_s) // HOUR_S * HOUR_S
    end_s = max((forecast.end_s for forecast in forecasts), default=start_s)
    hours = inputs.hours or min(max(1, -(-(end_s - start_s) // HOUR_S)), MAX_HOURS)
    step_s = math.gcd(HOUR_S, *(forecast.step_s for forecast in forecasts))
    return Grid(start_s, max(step_s, FINEST_STEP_S), hours)


def on_grid(forecast: Forecast, level: float, grid: Grid, growth_per_week: float = 0.0) -> F64:
    """The quantile at each step of the grid. Before the forecast begins its first value; after its end as PlanInputs says."""
    values = forecast.at(level)
    if len(values) == 0:
        return np.zeros(grid.hours * grid.per_hour)
    times_s = grid.times_s()
    at = np.maximum((times_s - forecast.start_s) // forecast.step_s, 0)
    period = next((s // forecast.step_s for s in (WEEK_S, DAY_S) if len(values) * forecast.step_s >= s), None)
    beyond = np.maximum(at - (len(values) - 1), 0)
    taken: F64 = values[np.minimum(at, len(values) - 1) if period is None else at - -(-beyond // period) * period]
    if period is None:
        taken = np.where(beyond > 0, values.max(), taken)
    if growth_per_week:
        weeks = np.maximum(times_s - forecast.end_s, 0) // WEEK_S + (beyond > 0)
        with np.errstate(over="ignore"):
            taken = taken * (1.0 + growth_per_week) ** weeks
        if not np.all(taken <= MAX_DEMAND):
            raise CapacityError(
                f"growth_per_week of {growth_per_week:g} makes the demand {float(np.max(taken)):.3g} requests/s (or tokens/s) within "
                f"{int(weeks.max())} weeks: choose less growth, or an earlier time"
            )
    return taken


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Requests of a model in a region that replicas answer, per step: at the level planned for, and at P50.

    Tokens are per request at P50, None where they were not forecast. `inputs` and `outputs` multiply them.
    """

    model: str
    region: str  # empty: of all regions
    requests_per_s: F64
    median_rps: F64
    input_tokens: F64 | None = None
    output_tokens: F64 | None = None
    inputs: float = 1.0
    outputs: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A demand on the grid, before cache and scenario: requests/s at the level planned for and at P50, tokens per request at P50."""

    demand: Demand
    high_rps: F64
    median_rps: F64
    input_tokens: F64 | None
    output_tokens: F64 | None


def wanted_of(inputs: PlanInputs, level: float, grid: Grid) -> list[Wanted]:
    """Every demand on the grid. Scenarios of one level share it."""
    wanted = []
    for demand in inputs.demands:
        median = on_grid(demand.requests, 0.5, grid, inputs.growth_per_week)
        wanted.append(
            Wanted(
                demand,
                high_rps=on_grid(demand.requests, level, grid, inputs.growth_per_week),
                median_rps=median,
                input_tokens=_per_request(demand.input_tokens, median, inputs, grid),
                output_tokens=_per_request(demand.output_tokens, median, inputs, grid),
            )
        )
    return wanted


def loads_of(wanted: Sequence[Wanted], scenario: Scenario, grid: Grid) -> list[Load]:
    """What remains of each demand after the cache, with the scenario's changes."""
    loads = []
    for each in wanted:
        missed = 1 - min(max(each.demand.hit_rate + scenario.hit_rate / 100, 0.0), 1.0)
        launched = _launched(each.demand, wanted, scenario, grid)
        loads.append(
            Load(
                each.demand.model,
                each.demand.region,
                requests_per_s=(each.high_rps * scenario.peak + launched) * missed,
                median_rps=(each.median_rps * scenario.peak + launched) * missed,
                input_tokens=each.input_tokens,
                output_tokens=each.output_tokens,
                inputs=scenario.inputs,
                outputs=scenario.outputs,
            )
        )
    known = {each.demand.model for each in wanted}
    for launch in scenario.launches:
        if launch.model not in known:
            rps = np.where(grid.times_s() >= launch.start_s, launch.requests_per_s, 0.0)
            loads.append(Load(launch.model, "", rps, rps, inputs=scenario.inputs, outputs=scenario.outputs))
    return loads


def _launched(demand: Demand, wanted: Sequence[Wanted], scenario: Scenario, grid: Grid) -> F64 | float:
    """Requests/s of the scenario's launches that come beside this demand: its part of the model's P50 demand."""
    launched: F64 | float = 0.0
    for launch in scenario.launches:
        if launch.model == demand.model:
            beside = [each.demand for each in wanted if each.demand.model == demand.model]
            total = sum(other.requests.median.sum() for other in beside)
            part = demand.requests.median.sum() / total if total else 1 / len(beside)
            launched += np.where(grid.times_s() >= launch.start_s, launch.requests_per_s * part, 0.0)
    return launched


def _per_request(tokens: Forecast | None, median_rps: F64, inputs: PlanInputs, grid: Grid) -> F64 | None:
    """Tokens per request of each step's hour. None without tokens."""
    if tokens is None:
        return None
    hour_tokens = grid.hourly_mean(on_grid(tokens, 0.5, grid, inputs.growth_per_week))
    hour_rps = grid.hourly_mean(median_rps)
    if hour_rps.sum() == 0 or hour_tokens.sum() == 0:
        return None
    enough = (hour_rps > NO_TRAFFIC_SHARE * hour_rps.mean()) & (hour_tokens > 0)
    overall = hour_tokens.sum() / hour_rps.sum()
    per_request = np.divide(hour_tokens, hour_rps, out=np.full(grid.hours, overall), where=enough)
    return np.repeat(per_request, grid.per_hour)


def work(load: Load, capacity: ReplicaCapacity) -> F64 | float:
    """How much of a replica's time a request takes, against those with which its capacity was measured.

    Prompts take `input_share` of the time, in proportion to their tokens, and outputs the rest: prefill and decode are both linear in
    tokens at a given batch (Splitwise, arXiv 2311.18677, section 3). Where the share is not known, the larger of the two ratios counts.

    Nor can a replica work on more requests at a time than its KV cache has room for: how long it works on one grows with its output.
    """
    inputs: F64 | float = load.inputs
    outputs: F64 | float = load.outputs
    if capacity.mix is not None and load.input_tokens is not None:
        inputs = inputs * load.input_tokens / capacity.mix.input_tokens
    if capacity.mix is not None and load.output_tokens is not None:
        outputs = outputs * load.output_tokens / capacity.mix.output_tokens
    if capacity.input_share is None:
        time: F64 | float = np.maximum(inputs, outputs)
    else:
        time = capacity.input_share * inputs + (1 - capacity.input_share) * outputs
    if capacity.kv_tokens is None or capacity.mix is None or capacity.batching_factor is None:
        return time
    together = capacity.batching_factor
    room = max(float(capacity.kv_tokens), together * _context(capacity.mix))  # which it had, as prefixes may be shared
    limited: F64 | float = np.maximum(time, together * outputs * _context(capacity.mix, inputs, outputs) / room)
    return limited


def size_of(input_tokens: float | None, output_tokens: float | None, capacity: ReplicaCapacity) -> float:
    """A request of so many tokens in those with which the capacity was measured. None: as many as those had."""
    inputs, outputs = (None if given is None else np.full(1, given) for given in (input_tokens, output_tokens))
    none = np.zeros(1)
    return float(np.max(work(Load("", "", none, none, inputs, outputs), capacity)))


def _context(mix: TokenMix, inputs: F64 | float = 1.0, outputs: F64 | float = 1.0) -> F64 | float:
    """Tokens in memory of a request that is answered, at any moment: half of its output, of outputs that are twice as long as all, since
    long ones are there for longer (lengths that vary as much as their mean, as those of language models do).
    """
    return inputs * mix.input_tokens + outputs * mix.output_tokens


def unread(inputs: PlanInputs) -> dict[str, str]:
    """By pool that has part of a demand whose forecast cannot be read, that as a sentence: what else it gets is not all."""
    return {
        pool: f"{demand.key} is left out: {demand.requests.reason}"
        for demand in inputs.demands
        if demand.requests.candidate == UNREADABLE
        for pool in shares(inputs.pools, demand.model, demand.region)
    }


def shares(pools: Sequence[PoolAssumptions], model: str, region: str) -> dict[str, float]:
    """The part of a model's demand in a region that each pool gets, by weight; where no pool is there, pools of all regions share it."""
    serving = [pool for pool in pools if pool.model == model]
    near = [pool for pool in serving if pool.region == region and pool.weight > 0] or [
        pool for pool in serving if pool.weight > 0
    ]
    total = sum(pool.weight for pool in near)
    return {pool.pool: pool.weight / total for pool in near}
