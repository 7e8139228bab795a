"""What other autoscalers would have wanted of a pool at a tick, from the same metrics: they are what savings are counted against."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from controlplane.policy.core.observation import Observation, PoolFacts
from controlplane.policy.core.record import Reference
from controlplane.policy.core.spec import InForce, Scaling, ScalingSpec
from forecasting.capacity.assumptions import ReplicaCapacity, TokenMix
from forecasting.simulate.arrivals import Arrivals
from forecasting.simulate.fitted import USED_SHARE, profile_of
from forecasting.simulate.outcome import Objective
from forecasting.simulate.policies.dynamo import Dynamo
from forecasting.simulate.policies.hpa import Hpa
from forecasting.simulate.policies.kpa import Kpa
from forecasting.simulate.policies.llmd import LlmdSlo
from forecasting.simulate.policies.policy import Observation as Seen
from forecasting.simulate.policies.policy import Policy

NOTHING = Arrivals(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int32))
ROOM = 1.5
"""llm-d and Dynamo get targets of so many times an unloaded request's times, where policies only know what a replica carries."""


@dataclass(slots=True)
class _Reference:
    """An autoscaler, and what came since it decided last. It decides as often as it does by default."""

    name: str
    policy: Policy
    since_ms: int
    arrived: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    in_flight_s: float = 0.0
    wanted: int | None = None


@dataclass(slots=True)
class _Target:
    basis: tuple[object, ...]
    at_ms: int
    references: list[_Reference]


class References:
    """The reference policies of every scaled pool. They keep what they saw, in this process: they begin anew with a new leader."""

    def __init__(self) -> None:
        self._targets: dict[str, _Target] = {}

    def of(self, observation: Observation, policies: Sequence[InForce]) -> tuple[Reference, ...]:
        """What each would have now, bounded by the policy's `min` and `max`. Nothing of a pool whose traffic or capacity is unknown."""
        scaled = {each.policy.spec.target: each.policy.spec for each in policies if isinstance(each.policy, Scaling)}
        self._targets = {name: target for name, target in self._targets.items() if name in scaled}
        return tuple(
            reference
            for name, spec in sorted(scaled.items())
            if (facts := observation.pools.get(name)) is not None
            for reference in self._of_target(spec, facts, observation.now_ms)
        )

    def _of_target(self, spec: ScalingSpec, facts: PoolFacts, now_ms: int) -> Iterator[Reference]:
        capacity = _capacity(facts)
        if capacity is None or None in (facts.arrived_rps, facts.in_flight, facts.ready, facts.wanted):
            return
        basis = (capacity.slots, round(capacity.batching_factor or 0.0, 1), facts.objective, spec.reactive.utilisation)
        target = self._targets.get(spec.target)
        if target is None or target.basis != basis:
            target = _Target(basis, now_ms, _policies(capacity, facts, spec, now_ms))
            self._targets[spec.target] = target
        passed_s, target.at_ms = (now_ms - target.at_ms) / 1_000, now_ms
        for each in target.references:
            _see(each, facts, passed_s, now_ms)
            if each.wanted is not None:
                yield Reference(spec.target, each.name, max(spec.min, min(each.wanted, spec.max)))


def _capacity(facts: PoolFacts) -> ReplicaCapacity | None:
    if not facts.capacity_rps or not facts.input_tokens or not facts.output_tokens:
        return None
    return ReplicaCapacity(
        facts.capacity_rps,
        "ledger",
        TokenMix(facts.input_tokens, facts.output_tokens),
        batching_factor=facts.batching_factor,
        slots=facts.slots,
    )


def _policies(capacity: ReplicaCapacity, facts: PoolFacts, spec: ScalingSpec, now_ms: int) -> list[_Reference]:
    """With the targets that the policy has: as full replicas as it plans with, and the times of a request at that load."""
    profile = profile_of(capacity)
    target = spec.reactive.in_flight_per_replica or spec.reactive.utilisation * (
        capacity.batching_factor or profile.max_sequences * USED_SHARE
    )
    ttft_s = ROOM * (profile.step_s + profile.prefill_token_s * (facts.input_tokens or 0.0))
    objective = Objective(0.95, ttft_s=max(ttft_s, 1e-3), itl_s=max(ROOM * profile.step_s, 1e-4))
    policies: list[tuple[str, Policy]] = [
        ("hpa", Hpa(target)),
        ("kpa", Kpa(target)),
        ("llm-d", LlmdSlo(profile, objective)),
        ("dynamo", Dynamo(profile, objective)),
    ]
    for _, policy in policies:
        policy.begin(NOTHING, facts.wanted or 1)
    return [_Reference(name, policy, now_ms) for name, policy in policies]


def _see(each: _Reference, facts: PoolFacts, passed_s: float, now_ms: int) -> None:
    """Add what came, and let it decide where its time has come."""
    arrived = (facts.arrived_rps or 0.0) * passed_s
    each.arrived += arrived
    each.input_tokens += arrived * (facts.input_tokens or 0.0)
    each.output_tokens += arrived * (facts.output_tokens or 0.0)
    each.in_flight_s += ((facts.in_flight or 0.0) + (facts.waiting or 0.0)) * passed_s
    window_s = (now_ms - each.since_ms) / 1_000
    if window_s < each.policy.tick_s:
        return
    in_flight, waiting = each.in_flight_s / window_s, facts.waiting or 0.0
    each.wanted = each.policy.decide(
        Seen(
            now_ms / 1_000,
            window_s,
            each.arrived,
            each.input_tokens,
            each.output_tokens,
            each.arrived,
            in_flight,
            max(0.0, in_flight - waiting),
            waiting,
            round(waiting),
            nan,
            nan,
            facts.ready or 0,
            facts.starting or 0,
            facts.draining or 0,
            facts.wanted or 0,
        )
    )
    each.since_ms, each.arrived, each.input_tokens, each.output_tokens, each.in_flight_s = now_ms, 0.0, 0.0, 0.0, 0.0
