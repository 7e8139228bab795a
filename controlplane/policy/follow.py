"""Decides with the policies that can be followed: one whose decision fails, or that cannot be read, stays as it is and stops no other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from msgspec import structs

from controlplane.policy.core.decide import decide, subject_of
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.memory import Left, Memory
from controlplane.policy.core.observation import Observation, Pause
from controlplane.policy.core.spec import InForce

log = structlog.get_logger(__name__)

WEIR, HELD = "Weir", "what it decides fails"


@dataclass(frozen=True, slots=True)
class Followed:
    """`policies` are those that were followed as `observation` says; `failing` says by reference which were held or left out, and why.
    `left` are those that were left out.
    """

    decision: Decision
    policies: tuple[InForce, ...]
    observation: Observation
    failing: Mapping[str, str] = field(default_factory=dict)
    left: tuple[Left, ...] = ()


def follow(observation: Observation, policies: Sequence[InForce], memory: Memory) -> Followed:
    """The decision with all of `policies`. Those that fail by themselves are held as they are: ladders, failovers and canaries that are
    under way go on. Those that fail even so are left out.

    Raises what deciding raises where no single policy is the cause.
    """
    try:
        return Followed(decide(observation, policies, memory), tuple(policies), observation)
    except Exception:
        log.exception("policies.failed")
        failing = {each.reference: why for each in policies if (why := _failure(observation, each, memory))}
        if not failing:
            raise
    until_ms = observation.now_ms + 1
    holds = (Pause(until_ms, "policy", each.name, WEIR, HELD) for each in policies if each.reference in failing)
    paused = structs.replace(observation, pauses=(*observation.pauses, *holds))
    followed = tuple(each for each in policies if each.reference not in failing or not _failure(paused, each, memory))
    left = (
        Left(type(each.policy).__name__, each.name, subject_of(each.policy))
        for each in policies
        if each not in followed
    )
    return Followed(decide(paused, followed, memory), followed, paused, failing, tuple(left))


def _failure(observation: Observation, policy: InForce, memory: Memory) -> str:
    """Why a policy fails by itself; empty if it does not."""
    try:
        decide(observation, (policy,), memory)
    except Exception as error:  # noqa: BLE001  (whatever it is, the others are followed; logged by the caller)
        return f"{type(error).__name__}: {error}"
    return ""
