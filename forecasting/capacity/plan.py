"""A plan: replicas, GPU-hours and cost of each pool by hour, with what binds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from forecasting.capacity.assumptions import HOUR_S, Demand, PoolAssumptions, ReplicaCapacity
from forecasting.series import F64, I64

Binding = Literal["demand", "queueing", "cold_start", "warm_floor", "gpu_quota", "budget", "no_capacity"]
BINDINGS: tuple[Binding, ...] = get_args(Binding)
"""In the order of their codes in `PoolPlan.binding`."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What forecast a demand of `size` requests/s (the mean of P50), with which skill, and how long that demand was measured.

    Several together have all their forecasters, the mean skill by size, in which one that was not compared counts 0, and the
    shortest history. None is not known.
    """

    forecasters: tuple[str, ...] = ()
    skill: float | None = None
    history_s: float | None = None
    size: float = 0.0

    @property
    def forecaster(self) -> str:
        return ", ".join(self.forecasters)

    @property
    def history_days(self) -> float | None:
        return None if self.history_s is None else round(self.history_s / (24 * HOUR_S), 1)

    @classmethod
    def of(cls, demands: Iterable[Demand]) -> Self:
        return cls.together(
            cls((each.requests.candidate,), each.requests.skill, each.history_s, float(each.requests.median.mean()))
            for each in demands
            if len(each.requests)
        )

    @classmethod
    def together(cls, parts: Iterable[Self]) -> Self:
        parts = [part for part in parts if part.forecasters]
        weights = [part.size + 1e-9 for part in parts]
        skill = sum(weight * (part.skill or 0.0) for weight, part in zip(weights, parts, strict=True))
        histories = [part.history_s for part in parts if part.history_s is not None]
        return cls(
            tuple(sorted({name for part in parts for name in part.forecasters})),
            skill / sum(weights) if any(part.skill is not None for part in parts) else None,
            min(histories, default=None),
            sum(part.size for part in parts),
        )


NO_BASIS = Basis()


@dataclass(frozen=True, slots=True)
class PoolHour:
    """A pool in one hour. `requests_per_s` is the highest of the hour, at the level that is planned for, that its replicas get; None
    where nothing says what is to come.

    `replicas` is `wanted_replicas` after quota and budget, and `lines_replicas` more. `shortfall_rps` is what they do not carry within
    the objective.
    """

    start_s: int
    requests_per_s: float | None
    wanted_replicas: int
    replicas: int
    lines_replicas: int
    gpu_hours: float
    cost_usd: float
    shortfall_rps: float
    binding: Binding
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class PoolPlan:
    """A pool by hour: arrays with a value for each hour from `start_s`.

    `median_rps` and the tokens are the hour's means at P50, of requests that replicas answer. `demand_replicas` carry the
    demand; `wanted` has spare replicas and the warm floor too; of `replicas` those in `lines` are there for work that can wait
    (`deadlines.with_lines`); `binding` holds positions in BINDINGS.
    """

    assumptions: PoolAssumptions
    gpu: str
    capacity: ReplicaCapacity | None
    start_s: int
    requests_per_s: F64
    median_rps: F64
    input_tokens_per_s: F64
    output_tokens_per_s: F64
    demand_replicas: I64
    wanted: I64
    replicas: I64
    lines: I64
    shortfall_rps: F64
    binding: npt.NDArray[np.int8]
    gpus_per_replica: int
    usd_per_gpu_hour: float
    batching_factor: (
        F64 | None
    )  # mean requests that a replica works on at the hour's peak; None where it was never measured
    notes: tuple[str, ...] = ()  # plain sentences: what is missing or was assumed
    basis: Basis = NO_BASIS  # who forecast its demand

    @property
    def pool(self) -> str:
        return self.assumptions.pool

    @property
    def has_demand(self) -> bool:
        """Whether a forecast or a launch says what is to come: without one the zeros are no demand."""
        return bool(self.basis.forecasters) or bool(self.requests_per_s.any())

    @property
    def for_clients(self) -> I64:
        """Replicas without those for work that can wait."""
        return self.replicas - self.lines

    @property
    def gpu_hours(self) -> F64:
        return self.replicas.astype(np.float64) * self.gpus_per_replica

    @property
    def unpriced(self) -> bool:
        """Nobody has entered what its GPUs cost: `cost_usd` is 0."""
        return not self.usd_per_gpu_hour and self.gpus_per_replica > 0

    @property
    def cost_usd(self) -> F64:
        cost: F64 = self.gpu_hours * self.usd_per_gpu_hour
        return cost

    @property
    def lines_cost_usd(self) -> F64:
        cost: F64 = self.lines.astype(np.float64) * (self.gpus_per_replica * self.usd_per_gpu_hour)
        return cost

    def binding_at(self, hour: int) -> Binding:
        return BINDINGS[int(self.binding[hour])]

    def hours(self) -> Iterator[PoolHour]:
        """Every hour with its reason."""
        for hour in range(len(self.replicas)):
            yield self.hour(hour)

    def hour(self, hour: int) -> PoolHour:
        lines = int(self.lines[hour])
        return PoolHour(
            start_s=self.start_s + hour * HOUR_S,
            requests_per_s=float(self.requests_per_s[hour]) if self.has_demand else None,
            wanted_replicas=int(self.wanted[hour]),
            replicas=int(self.replicas[hour]),
            lines_replicas=lines,
            gpu_hours=float(self.gpu_hours[hour]),
            cost_usd=float(self.cost_usd[hour]),
            shortfall_rps=float(self.shortfall_rps[hour]),
            binding=self.binding_at(hour),
            reason=f"{self._reason(hour)}{f' {lines} more for work that can wait.' if lines else ''}",
        )

    def _reason(self, hour: int) -> str:
        """Of those for clients."""
        replicas, wanted, needed = int(self.for_clients[hour]), int(self.wanted[hour]), int(self.demand_replicas[hour])
        load = f"{self.requests_per_s[hour]:.3g} requests/s"
        spare = f" and {self.assumptions.spare_replicas} spare" if self.assumptions.spare_replicas else ""
        match self.binding_at(hour):
            case "no_capacity":
                return (
                    f"What a replica of {self.assumptions.variant} carries on {self.gpu} is not known: the warm floor of {replicas} "
                    "is kept. Enter its capacity, or let traffic measure it."
                )
            case "warm_floor":
                beyond = f"{load} would need {needed}{spare}" if self.has_demand else "the demand is not known"
                return f"The warm floor is {self.assumptions.warm_floor}; {beyond}."
            case "demand":
                return f"{load} need {needed}{spare}."
            case "queueing":
                return f"{load} need {needed}{spare}: in a pool this small, bursts would queue with fewer."
            case "cold_start":
                return (
                    f"{load} come at the hour's peak, and more soon after: {needed}{spare} must be starting by then, "
                    f"because a start takes {self.assumptions.cold_start.p90_s:.0f} s."
                )
            case "gpu_quota":
                return (
                    f"{wanted} are wanted, and the quota of {self.gpu} in {self.assumptions.region} leaves {replicas}."
                )
            case "budget":
                return f"{wanted} are wanted, and the month's budget leaves {replicas}."


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Every pool over the same hours. `notes` are about the plan as a whole, such as demand that no pool serves."""

    start_s: int
    hours: int
    level: float
    pools: tuple[PoolPlan, ...]
    notes: tuple[str, ...] = ()

    @property
    def unforecast(self) -> list[str]:
        """The pools of models of which nothing says what is to come. Where a model's demand is forecast, a pool beside it gets none."""
        known = {pool.assumptions.model for pool in self.pools if pool.has_demand}
        return [pool.pool for pool in self.pools if pool.assumptions.model not in known]

    @property
    def gpu_hours(self) -> float:
        return float(sum(pool.gpu_hours.sum() for pool in self.pools))

    @property
    def cost_usd(self) -> float:
        return float(sum(pool.cost_usd.sum() for pool in self.pools))

    @property
    def lines_cost_usd(self) -> float:
        """Of it that of replicas for work that can wait."""
        return float(sum(pool.lines_cost_usd.sum() for pool in self.pools))

    @property
    def end_s(self) -> int:
        return self.start_s + self.hours * HOUR_S
