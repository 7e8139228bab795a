"""What a tick concludes, as plain values."""

from typing import Literal

import msgspec

from controlplane.policy.core.memory import Memory, TargetMemory

Action = Literal["none", "up", "down", "hold", "raise_floor"]
"""`none`: the count is as it should be. `hold`: a rail forbids to change it. `raise_floor`: an HPA's minimum is raised."""


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values that a record keeps."""


class Candidate(Decided, frozen=True):
    """A count, where it comes from (reactive, forecast, lines, floor, override), and why."""

    count: int
    source: str
    reason: str


class Proposed(Decided, frozen=True):
    """What the scaling law proposes: the highest candidate, after the scale-down was slowed."""

    candidates: tuple[Candidate, ...]
    wanted: int
    reason: str
    memory: TargetMemory


class Rail(Decided, frozen=True):
    """A rail that changed the count, or kept it."""

    name: str
    before: int
    after: int
    reason: str


class Alarm(Decided, frozen=True):
    """Something that people have to know of. `key` stays the same while the fault lasts."""

    key: str
    kind: str
    subject: str
    """A pool, a model or a cluster."""
    text: str
    severity: Literal["page", "ticket"] = "ticket"


class TargetDecision(Decided, frozen=True):
    """`seen` is the count in the cluster, `wanted` what it should be: None where the count is not known. Both are the floor of
    an HPA that is cooperated with.
    """

    target: str
    policy: str
    """Name@revision."""
    seen: int | None
    wanted: int | None
    action: Action
    reason: str
    candidates: tuple[Candidate, ...] = ()
    rails: tuple[Rail, ...] = ()


class TierStep(Decided, frozen=True):
    """What is done to the requests of a tier: the step of the ladder it is on, and all that this step does."""

    tier: str
    step: int
    """From 1."""
    name: str
    policy: str
    since_ms: int
    pool: str | None = None
    variant: str | None = None
    max_output_tokens: int | None = None
    partial: bool = False
    cached_only: bool = False
    shed_retry_after_s: int | None = None


class Transition(Decided, frozen=True):
    """A change of a ladder, failover or canary, or why it stays where it is although a condition is unknown."""

    kind: Literal["ladder", "failover", "canary"]
    name: str
    """The tier, the failover or the canary."""
    before: str
    after: str
    reason: str
    policy: str = ""
    """Name@revision."""


class ModelDecision(Decided, frozen=True):
    """What lies over the routes that owners entered. None and empty leave them as they are."""

    model: str
    moved: dict[str, dict[str, int]] = {}
    """By pool that is failed over from: the weights of the pools that get its traffic."""
    canary: dict[str, int] = {}
    """Percent by pool."""
    degradation: tuple[TierStep, ...] = ()
    transitions: tuple[Transition, ...] = ()
    policies: tuple[str, ...] = ()


class Decision(Decided, frozen=True):
    version: int
    targets: dict[str, TargetDecision] = {}
    models: dict[str, ModelDecision] = {}
    alarms: tuple[Alarm, ...] = ()
    memory: Memory = Memory()
