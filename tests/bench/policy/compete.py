"""One trace and cold start: policies tuned on the first half, scored on the second."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import ceil

import numpy as np

from controlplane.policy.core.spec import Reactive, ScalingSpec
from controlplane.policy.foresight import Forecasts, Plans, horizon_for
from controlplane.policy.simulated import Simulated
from forecasting.capacity.assumptions import ColdStart, PoolAssumptions, ReplicaCapacity
from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.policy import Observation, Policy
from forecasting.simulate.replay import Pool, replay
from tests.bench.figures import say
from tests.bench.policy.foresight import forecasts
from tests.bench.policy.traffic import DEMAND_STEP_S, OBJECTIVE, SLOTS, Trace, busiest, capacity, demand, part, profile
from tests.bench.references.dynamo import Dynamo
from tests.bench.references.hpa import Hpa
from tests.bench.references.kpa import Kpa
from tests.bench.references.llmd import LlmdSlo
from tests.bench.references.oracle import Oracle

MARGIN_S = 60
"""Added to a cold start in plans, as PlanSettings has it."""
WORKERS = 2
TUNED_ON_SEED = 0
SEEDS = (1, 2, 3, 4, 5)
PARTS, T95 = 6, 2.015
"""A setting is chosen by so many equal parts of the first half (days, of two weeks), with Student's t of a bound that 95 % are above: the
cheapest that just kept the objective once would miss it the next time as often as not.
"""
HISTORY_SHARE = 1 / 7
"""The first day of a week is history alone."""
FILLED = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.4, 0.3, 0.2)
"""What HPA and KPA are tuned by: the share of a replica's slots that is their target."""
ADDED = (0.8, 0.9, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.5, 1.6, 1.8, 2.0, 2.5)
"""What llm-d and Dynamo are tuned by: their count times this."""
UTILISATIONS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
LEVELS = (None, 0.3, 0.4, 0.5, 0.8, 0.9)
"""Quantiles that Weir's plans are made for; None is no forecast. With the utilisation, what an owner can set."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A policy with its setting: plain, so that it goes to another process."""

    kind: str
    setting: float = 1.0
    level: float | None = None

    def __str__(self) -> str:
        level = "" if self.kind != "weir" else ", no forecast" if self.level is None else f", P{100 * self.level:g}"
        return f"{self.kind} {self.setting:g}{level}"


@dataclass(frozen=True, slots=True)
class Result:
    contestant: Contestant
    seed: int
    attainment: float
    surely: float
    """The attainment less its error, by parts of the time."""
    gpu_hours: float
    reversals_per_day: float


def surely(arrived: Sequence[int], good: Sequence[int]) -> float:
    """A lower bound of the share of good requests: 95 % sure, by how much it differs between PARTS of the time. Inputs are by step."""
    shares = [
        float(of_part.sum() / max(1, came.sum()))
        for came, of_part in zip(np.array_split(arrived, PARTS), np.array_split(good, PARTS), strict=True)
    ]
    error = float(np.std(shares, ddof=1)) / PARTS**0.5
    return float(sum(good) / max(1, sum(arrived)) - T95 * error)


@dataclass(slots=True)
class _Added:
    """A policy whose count is multiplied."""

    policy: Policy
    factor: float

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def tick_s(self) -> float:
        return self.policy.tick_s

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        self.policy.begin(arrivals, replicas)

    def decide(self, seen: Observation) -> int:
        return ceil(self.policy.decide(seen) * self.factor - 1e-9)


@dataclass(slots=True)
class _Recorded:
    """A policy, with its answers."""

    policy: Policy
    wanted: list[int]

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def tick_s(self) -> float:
        return self.policy.tick_s

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        self.policy.begin(arrivals, replicas)
        self.wanted = [replicas]

    def decide(self, seen: Observation) -> int:
        self.wanted.append(max(1, self.policy.decide(seen)))
        return self.wanted[-1]


def reversals(wanted: Sequence[int]) -> int:
    """Changes against the direction of the one before, however long ago."""
    changes = np.sign(np.diff(np.asarray(wanted, dtype=np.int64)))
    changes = changes[changes != 0]
    return int((changes[1:] != changes[:-1]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The requests of a seed between two times of a trace, and what was known."""

    requests: Arrivals
    pool: Pool
    assumptions: PoolAssumptions
    capacity: ReplicaCapacity
    forecasts: Forecasts
    start_s: int
    lasts_s: int
    cold_start_s: float
    seed: int

    def play(self, contestant: Contestant) -> Result:
        policy = _Recorded(self.policy(contestant), [])
        outcome = replay(self.requests, self.pool, policy, OBJECTIVE, duration_s=self.lasts_s)
        per_day = reversals(policy.wanted) * 86_400 / self.lasts_s
        sure = surely(outcome.steps.arrived.tolist(), outcome.steps.good.tolist())
        return Result(contestant, self.seed, outcome.attainment, sure, outcome.gpu_hours, per_day)

    def policy(self, contestant: Contestant) -> Policy:
        setting = contestant.setting
        match contestant.kind:
            case "hpa":
                return Hpa(setting * SLOTS)
            case "kpa":
                return Kpa(setting * SLOTS)
            case "llm-d":
                return _Added(LlmdSlo(profile(), OBJECTIVE), setting)
            case "dynamo":
                return _Added(Dynamo(profile(), OBJECTIVE), setting)
            case "oracle":
                return Oracle(profile(), setting, self.cold_start_s)
        spec = ScalingSpec(max=self.pool.max_replicas, pool="chat", reactive=Reactive(utilisation=setting))
        policy = Simulated(spec, self.capacity, self.cold_start_s, start_ms=self.start_s * 1_000)
        if contestant.level is not None:
            policy.plan = Plans(self.forecasts, self.assumptions, contestant.level, MARGIN_S)
        return policy


def stage(trace: Trace, cold_start_s: float, seed: int, tuned: bool) -> Stage:
    """The first half without its history, or the second."""
    requests = trace.requests(seed)
    known = demand(requests, trace)
    first_s = int(trace.half_s * HISTORY_SHARE) // DEMAND_STEP_S * DEMAND_STEP_S
    from_s, to_s = (first_s, trace.half_s) if tuned else (trace.half_s, trace.end_s)
    replica = capacity(busiest(known, trace.half_s, capacity()))
    at_first = known.values[: max(1, from_s // DEMAND_STEP_S)][-1]
    pool = Pool(
        profile(),
        cold_start_s=(cold_start_s,),
        min_replicas=1,
        max_replicas=500,
        start_replicas=ceil(at_first / replica.requests_per_s) + 2,
    )
    assumptions = PoolAssumptions(
        "chat", "chat", "chat", "", "gpu", {"gpu": replica}, ColdStart(cold_start_s, "entered"), spare_replicas=0
    )
    horizon_s = horizon_for(cold_start_s + MARGIN_S, DEMAND_STEP_S)
    first, last = max(1, from_s // DEMAND_STEP_S - 2), to_s // DEMAND_STEP_S
    foreseen = forecasts(known, first, last, horizon_s)
    own = part(requests, from_s, to_s)
    return Stage(own, pool, assumptions, replica, foreseen, known.start_s + from_s, to_s - from_s, cold_start_s, seed)


def cheapest(
    options: Sequence[Contestant], play: Callable[[Contestant], Result], keeps: Callable[[Result], bool]
) -> Result:
    """Of options from cheap to dear the first that keeps the objective, by bisection; the dearest where none does."""
    low, high = 0, len(options) - 1
    best: Result | None = None
    while low <= high:
        middle = (low + high) // 2
        result = play(options[middle])
        if keeps(result):
            best, high = result, middle - 1
        else:
            low = middle + 1
    return best or play(options[-1])


def _tune(trace: Trace, cold_start_s: float, options: Sequence[Contestant], target: float) -> Result:
    on = stage(trace, cold_start_s, TUNED_ON_SEED, tuned=True)
    return cheapest(options, on.play, lambda result: result.surely >= target)


def tuned(trace: Trace, cold_start_s: float, target: float) -> list[Contestant]:
    """Weir and the references, each with the cheapest setting that surely reached the target."""
    families = [[Contestant("weir", share, level) for share in UTILISATIONS] for level in LEVELS]
    families += [[Contestant(kind, share) for share in FILLED] for kind in ("hpa", "kpa")]
    families += [[Contestant(kind, factor) for factor in ADDED] for kind in ("llm-d", "dynamo")]
    stage(trace, cold_start_s, TUNED_ON_SEED, tuned=True)  # makes the forecasts that all share
    with ProcessPoolExecutor(WORKERS) as processes:
        count = len(families)
        results = list(processes.map(_tune, [trace] * count, [cold_start_s] * count, families, [target] * count))
    for result in results:
        say(
            f"tuned: {result.contestant}: {result.attainment:.3%} good, surely {result.surely:.3%}, {result.gpu_hours:,.0f} GPU-hours"
        )
    own = [result for result in results if result.contestant.kind == "weir"]
    reached = [result for result in own if result.surely >= target]
    best = min(reached, key=lambda each: each.gpu_hours) if reached else max(own, key=lambda each: each.surely)
    return [best.contestant, *(each.contestant for each in results if each.contestant.kind != "weir")]


def _score(trace: Trace, cold_start_s: float, contestants: Sequence[Contestant], seed: int) -> list[Result]:
    on = stage(trace, cold_start_s, seed, tuned=False)
    loads = [Contestant("oracle", load) for load in np.arange(1.12, 0.3, -0.02).tolist()]
    return [
        *(on.play(each) for each in contestants),
        cheapest(loads, on.play, lambda result: result.attainment >= OBJECTIVE.target),
    ]


def scored(trace: Trace, cold_start_s: float, contestants: Sequence[Contestant]) -> Iterator[list[Result]]:
    """Each seed's results, the oracle's last."""
    with ProcessPoolExecutor(WORKERS) as processes:
        count = len(SEEDS)
        yield from processes.map(_score, [trace] * count, [cold_start_s] * count, [contestants] * count, SEEDS)
