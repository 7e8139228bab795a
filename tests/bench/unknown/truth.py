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
from tests.support.policy.cases import NOW_MS, POOL

TICK_S = 20
TICKS = 75
"""25 minutes."""
UNKNOWNS = (
    "gateway_silent", "gateway_restarted", "cluster_problem", "cluster_old", "cluster_never", "capacity", "servers_old", "in_flight",
    "plan", "reachable", "tiers", "spent", "gpus_of_replica", "canary_counts",
)  # fmt: skip
TROUBLES = ("crash", "crash_of_all", "pending", "rollout", "unreachable", "burning")
"""Things that happen, and are seen unless they are unknown."""
LONGEST = 25
"""Ticks that one of them lasts at most."""
SLOTS = 16


@dataclass
class Truth:
    """The pool of a history. `wanted` is what the cluster was last told, and `ready` follows it after a cold start."""

    capacity_rps: float
    loads: list[float] = field(default_factory=list)
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    wanted: int = 0
    ready: int = 0
    cold_ticks: int = 1
    starting: list[int] = field(default_factory=list)
    pending_since_ms: int | None = None
    waiting: float = 0.0

    @classmethod
    def drawn(cls, draw: random.Random, most: int) -> "Truth":
        truth = cls(draw.uniform(2, 20), cold_ticks=draw.randint(1, 6))
        truth.wanted = truth.ready = draw.randint(2, most)
        base = truth.capacity_rps * draw.uniform(0.3, 0.75) * truth.wanted
        for _ in range(TICKS):
            if draw.random() < 0.04:
                base *= draw.choice((0.0, 0.3, 0.6, 1.5, 2.5))
                base = min(max(base, draw.choice((0.0, truth.capacity_rps / 2))), truth.capacity_rps * most)
            truth.loads.append(max(0.0, draw.gauss(base, math.sqrt(base / TICK_S))))
        for name in (*UNKNOWNS, *TROUBLES):
            if draw.random() < 0.3:
                first = draw.randrange(TICKS)
                truth.spans[name] = [(first, first + draw.randint(1, LONGEST))]
        return truth

    def during(self, name: str, tick: int) -> int | None:
        """For how many ticks this has lasted, or None."""
        return next((tick - first for first, end in self.spans.get(name, ()) if first <= tick < end), None)

    def needed(self, tick: int) -> int:
        """The replicas without which requests would pile up, at the lowest load of the last minute: chance is no need."""
        return math.ceil(min(self.loads[max(0, tick - 2) : tick + 1]) / self.capacity_rps - 1e-9)

    def follow(self, wanted: int, tick: int, now_ms: int) -> None:
        """What the cluster does within a tick."""
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

    def observed(self, tick: int, now_ms: int) -> Observation:
        """All that is true now."""
        draw_load = self.loads[tick]
        failing = 0
        if self.during("crash_of_all", tick) is not None:
            failing = self.ready
        elif self.during("crash", tick) is not None:
            failing = min(self.ready, 2)
        rolling = self.during("rollout", tick)
        ready = self.ready - failing - (1 if rolling is not None and self.ready > failing else 0)
        carried = ready * self.capacity_rps
        self.waiting = max(0.0, min(500.0, self.waiting + (draw_load - carried) * TICK_S))
        in_flight = min(ready * SLOTS, round(min(draw_load, carried) / self.capacity_rps * SLOTS * 0.8))
        down = self.during("unreachable", tick) is not None or not ready
        pending = max(0, self.wanted - self.ready - len(self.starting))
        whole = PoolFacts(
            POOL, "chat", region="eu", cluster="eu", gpu="h100", gpus_per_replica=2, usd_per_replica_hour=4.0, arrived_rps=draw_load,
            waiting=self.waiting, queue_delay_s=self.waiting / max(1.0, carried), running=float(in_flight), in_flight=float(in_flight),
            kv_use=min(1.0, draw_load / max(carried, 0.1)), wanted=self.wanted, ready=ready, starting=len(self.starting), draining=0,
            pending=pending, pending_since_ms=self.pending_since_ms if pending else None, failing=failing,
            failing_reason="“server” ended with exit code 1" if failing else "",
            rollout="Deployment “chat” is replacing 1 replica of an older template." if rolling is not None else "",
            rollout_stuck=rolling is not None and rolling > LONGEST / 2, capacity_rps=self.capacity_rps, slots=SLOTS,
            cold_start_s=float(self.cold_ticks * TICK_S), traffic_age_ms=1_000, servers_age_ms=1_000, cluster_age_ms=1_000,
            capacity_age_ms=1_000, reachable=not down,
        )  # fmt: skip
        far = PoolFacts(
            "far", "chat", cluster="us", ready=4, traffic_age_ms=1_000, cluster_age_ms=1_000, reachable=True
        )
        burn = 20.0 if self.during("burning", tick) is not None else 0.5
        tiers = {
            name: TierFacts(name, burn_rate_fast=burn, burn_rate_slow=burn, budget_left=0.5, arrived_rps=1.0, age_ms=0)
            for name in ("batch", "standard")
        }
        warm = (math.ceil(draw_load / self.capacity_rps),) * 12
        plan = PoolPlan(POOL, now_ms, now_ms, 300_000, 300_000, warm, warm, warm, "seasonal", 0.3, 0.9, "as planned")
        arm = Arm(50 * tick, 0, 50 * tick, 3 * tick, tick)
        return Observation(
            now_ms,
            {POOL: whole, "far": far},
            {"chat": ModelFacts("chat", (POOL, "far"), tiers)},
            clusters={"eu": ClusterFacts("eu", 1_000, "", {"h100": Gpus(64, 8)}), "us": ClusterFacts("us", 1_000)},
            spent={POOL: Spent(5.0, 20.0, 1_000)},
            plans={POOL: plan},
            canaries={"canary": CanaryCounts(NOW_MS, now_ms, (Stratum(arm, arm),), age_ms=1_000)},
        )

    def blind(self, tick: int, known: Observation, before: Observation) -> Observation:
        """What is seen of it. `before` was seen a tick ago: what is not read any more stays, and gets older."""
        pool, last = known.pools[POOL], before.pools[POOL]
        unknown = {name for name in UNKNOWNS if self.during(name, tick) is not None}
        older_ms = TICK_S * 1_000
        traffic = ("arrived_rps", "waiting", "queue_delay_s", "in_flight", "reachable")
        counts = (
            "wanted", "ready", "starting", "pending", "pending_since_ms", "failing", "failing_reason", "rollout", "rollout_stuck",
        )  # fmt: skip
        kept = list[str]()
        if "gateway_silent" in unknown:
            kept += traffic
            pool = structs.replace(pool, traffic_age_ms=(last.traffic_age_ms or 0) + older_ms)
        if "cluster_old" in unknown or "cluster_problem" in unknown:
            kept += counts
            pool = structs.replace(pool, cluster_age_ms=(last.cluster_age_ms or 0) + older_ms)
        if "servers_old" in unknown:
            kept += ["running", "kv_use"]
            pool = structs.replace(pool, servers_age_ms=(last.servers_age_ms or 0) + older_ms)
        pool = structs.replace(pool, **{name: getattr(last, name) for name in kept})
        if self.during("gateway_restarted", tick) == 0:
            pool = structs.replace(pool, arrived_rps=None, in_flight=None, reachable=None)
        for name, fields in (
            ("capacity", ("capacity_rps", "capacity_age_ms")), ("in_flight", ("in_flight",)), ("reachable", ("reachable",)),
            ("gpus_of_replica", ("gpus_per_replica",)),
        ):  # fmt: skip
            if name in unknown:
                pool = structs.replace(pool, **dict.fromkeys(fields))
        clusters = dict(known.clusters)
        if "cluster_problem" in unknown:
            clusters["eu"] = ClusterFacts("eu", pool.cluster_age_ms, "connection refused")
        elif "cluster_never" in unknown:
            pool = structs.replace(pool, cluster_age_ms=None, wanted=None, ready=None, starting=None, pending=None)
            clusters["eu"] = ClusterFacts("eu")
        elif "cluster_old" in unknown:
            clusters["eu"] = structs.replace(clusters["eu"], age_ms=pool.cluster_age_ms)
        model = known.models["chat"]
        if "tiers" in unknown:
            model = structs.replace(model, tiers={})
        return structs.replace(
            known,
            pools={**known.pools, POOL: pool},
            models={"chat": model},
            clusters=clusters,
            plans={} if "plan" in unknown else known.plans,
            spent={} if "spent" in unknown else known.spent,
            canaries={} if "canary_counts" in unknown else known.canaries,
        )
