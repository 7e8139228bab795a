"""What a plan rests on: demand, what a replica carries, how long it takes to start, prices and limits."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from forecasting.forecast import Forecast

HOUR_S = 3600
MAX_HOURS = 24 * 100
"""The longest plan: a quarter."""
Source = Literal["ledger", "benchmark", "entered", "assumed"]
"""Where a figure is from: measured in traffic, measured by a benchmark, or entered by a person."""


class CapacityError(ValueError):
    """An assumption that no plan can rest on. Permanent: the message names the field, its value and the remedy."""


def require(name: str, value: float, at_least: float = 0.0, at_most: float = math.inf, above: bool = False) -> None:
    """Raises CapacityError unless `value` is finite and between the bounds; with `above` the lower bound itself is refused."""
    too_low = value <= at_least if above else value < at_least
    if not math.isfinite(value) or too_low or value > at_most:
        bound = f"above {at_least:g}" if above else f"{at_least:g} or more"
        if at_most < math.inf:
            bound += f", and at most {at_most:g}"
        raise CapacityError(f"{name} is {value:g}: give a number {bound}")


@dataclass(frozen=True, slots=True)
class TokenMix:
    """Mean tokens of a request that a replica answers."""

    input_tokens: float
    output_tokens: float

    def __post_init__(self) -> None:
        require("input_tokens", self.input_tokens, above=True)
        require("output_tokens", self.output_tokens, above=True)


@dataclass(frozen=True, slots=True)
class ReplicaCapacity:
    """The load that a replica carries while its objective is kept, and the circumstances under which that was so.

    `input_share` is the part of a replica's work that prompts cause (0..1). None: not measured; of prompts and outputs
    the one that grew more then counts. `batching_factor` is the mean number of requests that a replica works on at this
    load, and `slots` the most that it can; without both, small pools get no extra room for queueing. `kv_tokens` is for how many tokens
    its KV cache has room.
    `lower_bound`: the objective was kept at every load that was seen, so a replica may carry more. `shown_on` is the day (since
    1970-01-01 UTC) on which a replica last carried it, 0 where that is not known, and `lost_on` the days on which more load lost the
    objective.
    """

    requests_per_s: float
    source: Source
    mix: TokenMix | None = None
    input_share: float | None = None
    batching_factor: float | None = None
    slots: int | None = None
    kv_tokens: int | None = None
    measured_replicas: int = 1
    gpus_per_replica: int = 1
    lower_bound: bool = False
    shown_on: int = 0
    lost_on: tuple[int, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        require("requests_per_s", self.requests_per_s, above=True)
        require("measured_replicas", self.measured_replicas, 1)
        require("gpus_per_replica", self.gpus_per_replica)
        if self.input_share is not None:
            require("input_share", self.input_share, 0, 1)
        if self.batching_factor is not None:
            require("batching_factor", self.batching_factor, above=True)
        if self.slots is not None:
            require("slots", self.slots, 1)
        if self.kv_tokens is not None:
            require("kv_tokens", self.kv_tokens, 1)

    @property
    def residence_s(self) -> float | None:
        """How long a replica works on a request at this load, s: Little's law, L = λ W."""
        return None if self.batching_factor is None else self.batching_factor / self.requests_per_s


@dataclass(frozen=True, slots=True)
class ColdStart:
    """P90 from a replica's creation to its first good answer, s. `starts` is how many were measured: 0 where it was not."""

    p90_s: float
    source: Source
    starts: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        require("cold_start.p90_s", self.p90_s)


@dataclass(frozen=True, slots=True)
class PoolAssumptions:
    """A pool, its replica's capacity by GPU type, and the limits that its owner set.

    `weight` is its share of the model's requests in its region, against those of the other pools. `capacities` may lack `gpu`, the
    type that the pool has: the plan then says that its capacity is not known.
    """

    pool: str
    model: str
    variant: str
    region: str
    gpu: str
    capacities: Mapping[str, ReplicaCapacity]
    cold_start: ColdStart
    gpus_per_replica: int = 1  # of `gpu`, where its capacity is not known
    weight: float = 100.0
    warm_floor: int = 1
    spare_replicas: int = 1

    def __post_init__(self) -> None:
        require(f"{self.pool}: weight", self.weight)
        require(f"{self.pool}: warm_floor", self.warm_floor)
        require(f"{self.pool}: spare_replicas", self.spare_replicas)
        require(f"{self.pool}: gpus_per_replica", self.gpus_per_replica)


@dataclass(frozen=True, slots=True)
class GpuQuota:
    """How many GPUs of a type may be used in a region."""

    region: str
    gpu: str
    gpus: int

    def __post_init__(self) -> None:
        require(f"quota of {self.gpu} in {self.region}", self.gpus)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What clients want of a model in a tier and region: requests/s, and tokens/s in and out, cached and shed requests included.

    `hit_rate` is the share (0..1) that the cache answers, or another request in flight. Without forecasts of tokens the mix is
    that at which the capacity was measured. `history_s` is how long the requests were measured that the forecast rests on.
    """

    model: str
    tier: str
    region: str
    requests: Forecast
    input_tokens: Forecast | None = None
    output_tokens: Forecast | None = None
    hit_rate: float = 0.0
    history_s: float | None = None

    def __post_init__(self) -> None:
        require(f"{self.key}: hit_rate", self.hit_rate, 0, 1)

    @property
    def key(self) -> str:
        return f"{self.model} / {self.tier or 'no tier'} / {self.region or 'no region'}"


@dataclass(frozen=True, slots=True, eq=False)
class PlanInputs:
    """Everything a plan is made of. `level` is the quantile of demand that it is made for; `margin_s` is added to each cold start.

    `usd_per_gpu_hour` is by GPU type; a type without a price costs nothing, and the plan says so. `budget_usd_per_month` is
    for all pools together, of a calendar month in UTC. The plan begins at the hour of `start_s` and has `hours`; None takes both from
    the forecasts. Beyond its end a forecast repeats its last whole week (else day, else its highest value), `growth_per_week` (0.02 is
    2 %) higher each week.
    """

    demands: tuple[Demand, ...]
    pools: tuple[PoolAssumptions, ...]
    usd_per_gpu_hour: Mapping[str, float] = field(default_factory=dict)
    quotas: tuple[GpuQuota, ...] = ()
    budget_usd_per_month: float | None = None
    level: float = 0.9
    margin_s: int = 60
    start_s: int | None = None
    hours: int | None = None
    growth_per_week: float = 0.0

    def __post_init__(self) -> None:
        require("level", self.level, 0, 1)
        require("growth_per_week", self.growth_per_week, -0.5, 0.5)
        if self.hours is not None:
            require("hours", self.hours, 1, MAX_HOURS)
        require("margin_s", self.margin_s)
        for gpu, usd in self.usd_per_gpu_hour.items():
            require(f"usd_per_gpu_hour of {gpu}", usd)
        if self.budget_usd_per_month is not None:
            require("budget_usd_per_month", self.budget_usd_per_month)
        names = [pool.pool for pool in self.pools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise CapacityError(f"pools has {', '.join(twice)} more than once: give each pool once")
