"""What a rail judges, and what it says."""

from typing import Literal, NamedTuple

from controlplane.policy.core.decision import Alarm
from controlplane.policy.core.memory import TargetMemory
from controlplane.policy.core.observation import ClusterFacts, Override, Pause, PoolFacts, Spent
from controlplane.policy.core.spec import ScalingSpec


class Case(NamedTuple):
    """`seen` is the count that is managed, 0 where it is not known: the first rail ends the case then."""

    now_ms: int
    spec: ScalingSpec
    facts: PoolFacts
    memory: TargetMemory
    cluster: ClusterFacts | None = None
    reserved_gpus: int = 0
    """Of the pool's GPU type, taken by decisions for other pools in this tick."""
    spent: Spent | None = None
    pause: Pause | None = None
    override: Override | None = None

    @property
    def seen(self) -> int:
        return managed_count(self.spec, self.facts) or 0


def hpa_of(facts: PoolFacts) -> str:
    """The name of the HPA that sets the count, or empty."""
    return facts.owner_of_count.removeprefix("hpa:") if facts.owner_of_count.startswith("hpa:") else ""


def cooperates(spec: ScalingSpec, facts: PoolFacts) -> bool:
    """Whether the count is moved through the floor of an HPA."""
    return bool(hpa_of(facts)) and spec.other_owner == "cooperate" and facts.hpa_min is not None


def managed_count(spec: ScalingSpec, facts: PoolFacts) -> int | None:
    """The count in the cluster, or the floor of an HPA that is cooperated with."""
    return facts.hpa_min if cooperates(spec, facts) else facts.wanted


class Verdict(NamedTuple):
    """The `replicas` after a rail, and why, as the rest of a sentence or as sentences. `hold` ends the rails (`all`), or leaves
    only those that need no metrics.
    """

    replicas: int
    reason: str
    alarm: Alarm | None = None
    hold: Literal["", "all", "metrics", "owner"] = ""


def lower(count: int, most: int, reason: str) -> Verdict | None:
    return Verdict(most, reason) if count > most else None


def raise_(count: int, least: int, reason: str) -> Verdict | None:
    return Verdict(least, reason) if count < least else None


def alarm(kind: str, subject: str, text: str, severity: Literal["page", "ticket"]) -> Alarm:
    return Alarm(f"{kind}:{subject}", kind, subject, text, severity)
