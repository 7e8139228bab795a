"""Decides with the policies that can be followed: a policy whose decision fails is left out, and stops no other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.spec import InForce

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Followed:
    """`policies` are those that were followed; `failing` says by reference why the others were not."""

    decision: Decision
    policies: tuple[InForce, ...]
    failing: Mapping[str, str] = field(default_factory=dict)


def follow(observation: Observation, policies: Sequence[InForce], memory: Memory) -> Followed:
    """The decision with all of `policies`, or without those that fail by themselves, as if they were not in force.

    Raises what deciding raises where no single policy is the cause.
    """
    try:
        return Followed(decide(observation, policies, memory), tuple(policies))
    except Exception:
        log.exception("policies.failed")
        failing = {each.reference: why for each in policies if (why := _failure(observation, each, memory))}
        if not failing:
            raise
    left = tuple(each for each in policies if each.reference not in failing)
    return Followed(decide(observation, left, memory), left, failing)


def _failure(observation: Observation, policy: InForce, memory: Memory) -> str:
    """Why a policy fails by itself; empty if it does not."""
    try:
        decide(observation, (policy,), memory)
    except Exception as error:  # noqa: BLE001  (whatever it is, the others are followed; logged by the caller)
        return f"{type(error).__name__}: {error}"
    return ""
