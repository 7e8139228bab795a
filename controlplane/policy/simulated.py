"""A scaling policy in the simulator: the same `decide` that the controller runs, over simulated pools."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation, PoolFacts, PoolPlan, Spent
from controlplane.policy.core.spec import InForce, Metadata, Scaling, ScalingSpec
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.policy import Observation as Seen

TICK_S = 15.0
"""Coarser than the controller's: a replay of two weeks has to be done while one waits, and no decision is in a hurry of seconds."""
DAY_MS = 86_400_000
MS_PER_S = 1_000


@dataclass(slots=True)
class Simulated:
    """A scaling policy from `start_ms` (since 1970) on.

    `plan` gives the warm plan that was known at a time in ms, None where there was none. KV and CPU use are not simulated: what
    the policy says of them, and of metrics of the store, is left out.
    """

    spec: ScalingSpec
    capacity: ReplicaCapacity | None
    cold_start_s: float
    gpus_per_replica: int = 1
    usd_per_replica_hour: float | None = None
    start_ms: int = 0
    plan: Callable[[int], PoolPlan | None] = lambda now_ms: None
    tick_s: float = TICK_S
    name: str = "weir"
    _policies: tuple[InForce, ...] = field(default=(), repr=False)
    _memory: Memory = field(default=Memory(), repr=False)
    _day: int = field(default=-1, repr=False)
    _replica_hours: float = field(default=0.0, repr=False)

    def begin(self, arrivals: Arrivals, replicas: int) -> None:
        reactive = msgspec.structs.replace(
            self.spec.reactive, kv_use=None, gpu_use=None, cpu_use=None, metrics=(), burn_rate=None, bad_share=None
        )
        spec = msgspec.structs.replace(self.spec, reactive=reactive)
        document = Scaling(api_version="weir/v1", metadata=Metadata(name="simulated"), spec=spec)
        self._policies = (InForce(0, 1, "", document),)
        self._memory, self._day, self._replica_hours = Memory(), -1, 0.0

    def decide(self, seen: Seen) -> int:
        observation = self._observation(seen)
        decision = decide(observation, self._policies, self._memory)
        self._memory = decision.memory
        wanted = decision.targets[self.spec.target].wanted
        return seen.wanted if wanted is None else wanted

    def _observation(self, seen: Seen) -> Observation:
        now_ms = self.start_ms + round(seen.time_s * MS_PER_S)
        target = self.spec.target
        plan = self.plan(now_ms)
        return Observation(
            now_ms,
            pools={target: self._facts(seen)},
            spent={target: self._spent(seen, now_ms)},
            plans={} if plan is None else {target: plan},
        )

    def _facts(self, seen: Seen) -> PoolFacts:
        capacity = self.capacity
        answered = max(seen.arrived, 1.0)
        return PoolFacts(
            self.spec.target,
            gpus_per_replica=self.gpus_per_replica,
            usd_per_replica_hour=self.usd_per_replica_hour,
            arrived_rps=seen.rate_rps,
            input_tokens=seen.input_tokens / answered,
            output_tokens=seen.output_tokens / answered,
            waiting=float(seen.waiting_now),
            # Little's law: the mean wait is what waits over the rate at which it is begun.
            queue_delay_s=seen.waiting / seen.rate_rps if seen.arrived else 0.0,
            running=seen.running,
            in_flight=seen.in_flight,
            wanted=seen.wanted,
            ready=seen.ready,
            starting=seen.starting,
            draining=seen.draining,
            pending=0,
            capacity_rps=capacity.requests_per_s if capacity else None,
            capacity_source=capacity.source if capacity else "",
            capacity_is_lower_bound=capacity.lower_bound if capacity else False,
            capacity_replicas=capacity.measured_replicas if capacity else 1,
            batching_factor=capacity.batching_factor if capacity else None,
            slots=capacity.slots if capacity else None,
            cold_start_s=self.cold_start_s,
            traffic_age_ms=0,
            servers_age_ms=0,
            cluster_age_ms=0,
            capacity_age_ms=0,
        )

    def _spent(self, seen: Seen, now_ms: int) -> Spent:
        """What was used since 00:00 UTC, in the replay."""
        if now_ms // DAY_MS != self._day:
            self._day, self._replica_hours = now_ms // DAY_MS, 0.0
        self._replica_hours += (seen.ready + seen.starting + seen.draining) * seen.window_s / 3_600
        usd = None if self.usd_per_replica_hour is None else self._replica_hours * self.usd_per_replica_hour
        return Spent(self._replica_hours * self.gpus_per_replica, usd, 0)
