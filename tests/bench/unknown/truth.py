"""What is true of a pool in a history, and what of it a controller sees."""

import math
import random
from dataclasses import dataclass, field

from msgspec import structs

from controlplane.policy.core.observation import (
    Arm,
    CanaryCounts,
    ClusterFacts,
    Gpus,
    ModelFacts,
    Observation,
    PoolFacts,
    PoolPlan,
    Spent,
    Stratum,
    TierFacts,
)
from tests.bench.unknown.gateways import ROUND_S, Gateways, Moment
from tests.support.policy.cases import POOL

TICK_S = 20
TICKS = 75
"""25 minutes."""
UNKNOWNS = (
    "cluster_problem", "cluster_old", "cluster_never", "capacity", "servers_old", "in_flight", "plan", "reachable", "tiers", "spent",
    "gpus_of_replica", "canary_counts", "limit_of_replica",
)  # fmt: skip
PARTLY = ("objective_of_tier", "demand_of_plan", "plan_old")
"""Drawn apart, so that histories which once went wrong stay what they were."""
TROUBLES = ("crash", "crash_of_all", "pending", "rollout", "unreachable", "burning", "bad_candidate")
"""Things that happen, and are seen unless they are unknown."""
OF_CLUSTER = (
    "wanted", "ready", "starting", "pending", "pending_since_ms", "failing", "failing_reason", "rollout", "rollout_stuck",
)  # fmt: skip
MAX_TICKS = 25
"""Ticks that one of them lasts at most."""
SLOTS = 16
CARRIED_SO_FAR = 0.6
GIVEN_UP = 0.1
"""The share of the requests that still come while all replicas crash: clients go elsewhere, and come back."""
LASTS = 0.9
"""The share of the requests in flight that are not done a tick later: some generations take minutes."""


@dataclass
class Truth:
    """The pool of a history. `wanted` is what the cluster was last told, and `ready` follows it after a cold start."""

    capacity_rps: float
    gateways: Gateways
    loads: list[float] = field(default_factory=list)
    """Requests/s that users want answered, by tick."""
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    by_hand: dict[int, int] = field(default_factory=dict)
    """The count that another than Weir sets, by tick."""
    wanted: int = 0
    ready: int = 0
    cold_ticks: int = 1
    starting: list[int] = field(default_factory=list)
    pending_since_ms: int | None = None
    waiting: float = 0.0
    in_flight: float = 0.0
    asked: int = 0
    """Requests of the canary's candidate so far, and those of them that failed."""
    failed: int = 0

    @classmethod
    def drawn(cls, draw: random.Random, most: int) -> "Truth":
        truth = cls(draw.uniform(2, 20), Gateways.drawn(draw, TICKS, MAX_TICKS), cold_ticks=draw.randint(1, 6))
        truth.wanted = truth.ready = draw.randint(2, most)
        for name in (*UNKNOWNS, *TROUBLES):
            if draw.random() < 0.25:
                first = draw.randrange(TICKS)
                truth.spans[name] = (first, first + draw.randint(1, MAX_TICKS))
        factors = {tick: draw.choice((0.0, 0.3, 0.6, 1.5, 2.5)) for tick in range(TICKS) if draw.random() < 0.03}
        for first, end in (*truth.spans.values(), *truth.gateways.spans()):
            if draw.random() < 0.4:  # it falls just before something is not known any more, and rises meanwhile
                fall = draw.uniform(0.2, 0.7)
                factors[max(0, first - draw.randint(0, 6))] = fall
                factors[draw.randint(first + 1, max(first + 1, end - 1))] = 1 / fall
        base = usual = truth.capacity_rps * draw.uniform(0.3, 0.75) * truth.wanted
        for tick in range(TICKS):
            base = min(max(usual if base == 0 else base, 0.0) * factors.get(tick, 1.0), truth.capacity_rps * most)
            truth.loads.append(max(0.0, draw.gauss(base, math.sqrt(base / TICK_S))))
        for _ in range(draw.choice((0, 0, 1, 2))):
            truth.by_hand[draw.randrange(TICKS)] = draw.randint(1, most)
        apart = random.Random(truth.capacity_rps)
        for name in PARTLY:
            if apart.random() < 0.25:
                first = apart.randrange(TICKS)
                truth.spans[name] = (first, first + apart.randint(1, MAX_TICKS))
        return truth

    def during(self, name: str, tick: int) -> int | None:
        """For how many ticks this has lasted, or None."""
        first, end = self.spans.get(name, (0, 0))
        return tick - first if first <= tick < end else None

    def needed(self, tick: int) -> int:
        """The replicas without which requests would pile up, at the lowest load of the last minute, as chance is no need; and those
        without which requests in flight have no place.
        """
        by_load = math.ceil(min(self.loads[max(0, tick - 2) : tick + 1]) / self.capacity_rps - 1e-9)
        return max(by_load, math.ceil(round(self.in_flight) / SLOTS - 1e-9))

    def follow(self, wanted: int | None, tick: int, now_ms: int) -> None:
        """What the cluster does within a tick after it was told a count, unless it was told nothing."""
        wanted = self.by_hand.get(tick, self.wanted) if wanted is None else wanted
        there = self.ready + len(self.starting)
        if wanted < there:
            removed = there - wanted
            kept = self.starting[: max(0, len(self.starting) - removed)]
            self.ready -= removed - (len(self.starting) - len(kept))
            self.starting = kept
        self.wanted = wanted
        missing = wanted - self.ready - len(self.starting)
        if missing > 0 and self.during("pending", tick) is None:
            self.starting += [tick + self.cold_ticks] * missing
        self.pending_since_ms = (
            (self.pending_since_ms or now_ms) if self.wanted > self.ready + len(self.starting) else None
        )
        self.ready += sum(at <= tick for at in self.starting)
        self.starting = [at for at in self.starting if at > tick]

    def observed(self, tick: int, now_ms: int, canary_since_ms: int | None) -> Observation:
        """All that is true now, and the rounds of this tick through the gateways."""
        load_rps = self.loads[tick]
        failing = 0
        if self.during("crash_of_all", tick) is not None:
            failing = self.ready
        elif self.during("crash", tick) is not None:
            failing = min(self.ready, 2)
        rolling = self.during("rollout", tick)
        ready = self.ready - failing - (1 if rolling is not None and self.ready > failing else 0)
        carried_rps = ready * self.capacity_rps
        arrived_rps = load_rps * (GIVEN_UP if failing and not ready and self.during("crash_of_all", tick) else 1)
        self.waiting = max(0.0, min(500.0, self.waiting + (arrived_rps - carried_rps) * TICK_S))
        waiting = float(round(self.waiting))  # whole requests
        begun = min(arrived_rps, carried_rps) / self.capacity_rps * SLOTS * 0.8
        reached = self.gateways.share_that_reaches(tick)
        self.in_flight = min(ready * SLOTS, max(begun, self.in_flight * LASTS)) * (1.0 if reached is None else reached)
        up = self.during("unreachable", tick) is None and ready > 0
        moment = Moment(
            arrived_rps, waiting, self.in_flight, self.waiting / max(1.0, carried_rps), min(1.0, load_rps / max(carried_rps, 0.1)),
            up, 1.0 if self.during("servers_old", tick) is None else None,
        )  # fmt: skip
        rounds = TICK_S // ROUND_S
        self.gateways.serve(tick, now_ms - (rounds - 1) * ROUND_S * 1_000 - 500, moment, rounds)
        pending = max(0, self.wanted - self.ready - len(self.starting))
        whole = PoolFacts(
            POOL, "chat", region="eu", cluster="eu", gpu="h100", gpus_per_replica=2, usd_per_replica_hour=4.0, arrived_rps=load_rps,
            waiting=waiting, queue_delay_s=moment.queue_delay_s, running=self.in_flight, in_flight=float(round(self.in_flight)),
            kv_use=moment.kv_use, wanted=self.wanted, ready=ready, starting=len(self.starting), draining=0,
            pending=pending, pending_since_ms=self.pending_since_ms if pending else None, failing=failing,
            failing_reason="“server” ended with exit code 1" if failing else "",
            rollout="Deployment “chat” is replacing 1 replica of an older template." if rolling is not None else "",
            rollout_stuck=rolling is not None and rolling > MAX_TICKS / 2, capacity_rps=self.capacity_rps, slots=SLOTS,
            cold_start_s=float(self.cold_ticks * TICK_S), traffic_age_ms=1_000, servers_age_ms=1_000, cluster_age_ms=1_000,
            capacity_age_ms=1_000, reachable=up and reached != 0,
        )  # fmt: skip
        far = PoolFacts(
            "far", "chat", cluster="us", ready=4, traffic_age_ms=1_000, cluster_age_ms=1_000, reachable=True
        )
        burn = 20.0 if self.during("burning", tick) is not None else 0.5
        tiers = {
            name: TierFacts(name, burn_rate_fast=rate, burn_rate_slow=rate, budget_left=0.5, arrived_rps=1.0, age_ms=0)
            for name, rate in (("batch", burn), ("premium", burn), ("standard", 0.5))
        }
        warm = (math.ceil(load_rps / self.capacity_rps),) * 12
        plan = PoolPlan(POOL, now_ms, now_ms, 300_000, 300_000, warm, warm, warm, "seasonal", 0.3, 0.9, "as planned")
        return Observation(
            now_ms,
            {POOL: whole, "far": far},
            {"chat": ModelFacts("chat", (POOL, "far"), tiers)},
            clusters={"eu": ClusterFacts("eu", 1_000, "", {"h100": Gpus(64, 8)}), "us": ClusterFacts("us", 1_000)},
            spent={POOL: Spent(5.0, 20.0, 1_000)},
            plans={POOL: plan},
            canaries=self._canary(tick, canary_since_ms, now_ms),
        )

    def _canary(self, tick: int, since_ms: int | None, now_ms: int) -> dict[str, CanaryCounts]:
        if since_ms is None:
            self.asked = self.failed = 0
            return {}
        self.asked += 50
        self.failed += 50 if self.during("bad_candidate", tick) is not None else 0
        answered = self.asked - self.failed
        candidate = Arm(self.asked, self.failed, answered, answered * 3 // 50, answered // 50)
        baseline = Arm(self.asked, 0, self.asked, self.asked * 3 // 50, self.asked // 50)
        return {"canary": CanaryCounts(since_ms, now_ms, (Stratum(candidate, baseline),), age_ms=1_000)}

    def blind(self, tick: int, known: Observation, before: Observation) -> Observation:
        """What is seen of it. `before` was seen a tick ago: what is not read any more stays, and gets older."""
        pool, last = known.pools[POOL], before.pools[POOL]
        unknown = {name for name in (*UNKNOWNS, *PARTLY) if self.during(name, tick) is not None}
        pool = structs.replace(pool, **self.gateways.facts(POOL, known.now_ms))
        for name, fields in (
            ("capacity", ("capacity_rps", "capacity_age_ms")), ("in_flight", ("in_flight",)), ("reachable", ("reachable",)),
            ("gpus_of_replica", ("gpus_per_replica",)),
        ):  # fmt: skip
            if name in unknown:
                pool = structs.replace(pool, **dict.fromkeys(fields))
        if "limit_of_replica" in unknown and pool.capacity_rps:  # only what it has carried so far is known
            pool = structs.replace(pool, capacity_rps=CARRIED_SO_FAR * pool.capacity_rps, capacity_is_lower_bound=True)
        clusters = dict(known.clusters)
        if {"cluster_old", "cluster_problem"} & unknown:
            age_ms = (last.cluster_age_ms or 0) + TICK_S * 1_000
            pool = structs.replace(pool, cluster_age_ms=age_ms, **{name: getattr(last, name) for name in OF_CLUSTER})
            problem = "connection refused" if "cluster_problem" in unknown else ""
            clusters["eu"] = structs.replace(clusters["eu"], age_ms=age_ms, problem=problem)
        elif "cluster_never" in unknown:
            pool = structs.replace(pool, cluster_age_ms=None, wanted=None, ready=None, starting=None, pending=None)
            clusters["eu"] = ClusterFacts("eu")
        model = known.models["chat"]
        if "tiers" in unknown:
            model = structs.replace(model, tiers={})
        elif "objective_of_tier" in unknown:  # of the one that burns while any does
            model = structs.replace(model, tiers=model.tiers | {"premium": TierFacts("premium", unjudged=("first",))})
        return structs.replace(
            known,
            pools={**known.pools, POOL: pool},
            models={"chat": model},
            clusters=clusters,
            plans={} if "plan" in unknown else {POOL: _plan_without(unknown, known.plans[POOL])},
            spent={} if "spent" in unknown else known.spent,
            canaries={} if "canary_counts" in unknown else known.canaries,
        )


def _plan_without(unknown: set[str], plan: PoolPlan) -> PoolPlan:
    """A plan that takes gaps for no demand, or whose worker has stopped: its forecasts are over."""
    if "demand_of_plan" in unknown:
        nothing = (0,) * len(plan.warm)
        plan = structs.replace(plan, warm=nothing, started=nothing, kept=nothing)
    return structs.replace(plan, start_ms=plan.start_ms - 3_600_000) if "plan_old" in unknown else plan
