"""What decisions must remember between ticks. It is part of each record."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

Verdict = Literal["continue", "worse", "equal", "undecided"]
Outcome = Literal["running", "promoted", "rolled_back", "held"]


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values that a record keeps."""


class LoadMemory(Remembered, frozen=True, kw_only=True):
    """Requests/s that arrive, as ticks until `at_ms` have seen them: a quick mean, and a steady one over `over_s` seconds."""

    at_ms: int
    quick_rps: float
    steady_rps: float
    over_s: float
    shown_s: float | None = None
    """For how long it has been seen, while that is short; else None."""
    recent: tuple[tuple[float, float], ...] = ()
    """(seconds, requests) of the last ticks, the newest first."""
    dispersion: float = 2.0
    """Variance of the requests of a tick over their mean, as measured in `compared_s` seconds."""
    compared_s: float = 0.0
    differ: tuple[float, ...] = ()
    """The squared differences over the sums of the last ticks, the newest last."""
    usual_rps: float | None = None
    """The mean of the last hour, of so many seconds at first. None in memories of older versions."""
    usual_over_s: float = 0.0
    waited_for: tuple[tuple[int, float, float], ...] = ()
    """(when in ms, by how much of it the load was above the usual, the usual): what is compared a cold start later."""
    strayed: float = 0.0
    """The sum of squares of these shares, older ones fading."""
    lasted: float = 0.0
    """The sum of their products with what was above the usual a cold start later."""


class TargetMemory(Remembered, frozen=True):
    """What is remembered of a pool, or of the API tier."""

    seen: int | None = None
    """The count in the cluster at the last tick that knew it."""
    owned: bool = False
    """Whether the count was Weir's before. A hand that set it earlier is no second owner."""
    steps: tuple[tuple[int, int], ...] = ()
    """(when in ms, replicas added or removed) as seen in the cluster, as far back as the rate's period, the cooldown and a cold start
    reach.
    """
    recommended: tuple[tuple[int, int], ...] = ()
    """(when in ms, count) of the stabilisation window, without those that a later, higher one covers."""
    load: LoadMemory | None = None


class LadderMemory(Remembered, frozen=True):
    """Where a tier of a model stands: `level` steps are entered, 0 is none."""

    level: int = 0
    since_ms: int = 0


class FailoverMemory(Remembered, frozen=True):
    active: bool = False
    since_ms: int = 0
    well_since_ms: int | None = None
    """Since when the condition has not held. None: it holds, or is unknown."""


class Chances(Remembered, frozen=True):
    """The chances of counts at least as extreme as those seen, each if the hypothesis of its name holds. `slower` and `failing_more` are
    so by the tolerance.
    """

    not_slower: float
    slower: float
    not_failing_more: float
    failing_more: float
    measures: dict[str, tuple[float, float]] = {}
    """By name of what else is compared: if it is not higher, and if it is so by the tolerance."""


class CanaryLook(Remembered, frozen=True):
    """What was concluded after so many requests of the candidate. `alpha` and `beta` are the chances below which this look rejects."""

    requests: int
    alpha: float
    beta: float
    chances: Chances
    verdict: Verdict
    reason: str


class CanaryMemory(Remembered, frozen=True):
    """Where a canary stands."""

    entered: tuple[tuple[int, int], ...]
    """(when in ms, percent of the candidate) of each step that was entered."""
    digest: str
    """Of the policy's spec: a canary whose spec is edited begins anew."""
    outcome: Outcome = "running"
    reason: str = ""
    ended_ms: int | None = None
    looks: tuple[CanaryLook, ...] = ()
    paused_since_ms: int | None = None
    paused_ms: int = 0
    """Of pauses that are over: nothing was judged in them."""

    @property
    def percent(self) -> int:
        return self.entered[-1][1]


class Memory(Remembered, frozen=True):
    targets: dict[str, TargetMemory] = {}
    ladders: dict[str, dict[str, LadderMemory]] = {}
    """By model, then by tier."""
    failovers: dict[str, dict[str, FailoverMemory]] = {}
    """By model, then by name of the failover."""
    canaries: dict[str, CanaryMemory] = {}
    """By name of the policy."""


def until(now_ms: int, memory: Memory) -> Memory:
    """`memory` with no time after now: such a time is of a clock that was ahead, and what counts from it would last until then."""

    def times(each: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        is_later = each and each[-1][0] > now_ms
        return tuple((min(at_ms, now_ms), value) for at_ms, value in each) if is_later else each

    def since(each: FailoverMemory) -> FailoverMemory:
        well_ms = None if each.well_since_ms is None else min(each.well_since_ms, now_ms)
        return FailoverMemory(each.active, min(each.since_ms, now_ms), well_ms)

    def standing(each: CanaryMemory) -> CanaryMemory:
        since_ms = None if each.paused_since_ms is None else min(each.paused_since_ms, now_ms)
        return replace(each, entered=times(each.entered), paused_since_ms=since_ms)

    replace = msgspec.structs.replace
    return Memory(
        {
            name: replace(each, steps=times(each.steps), recommended=times(each.recommended))
            for name, each in memory.targets.items()
        },
        {
            model: {tier: LadderMemory(each.level, min(each.since_ms, now_ms)) for tier, each in tiers.items()}
            for model, tiers in memory.ladders.items()
        },
        {
            model: {name: since(each) for name, each in failovers.items()}
            for model, failovers in memory.failovers.items()
        },
        {name: standing(each) for name, each in memory.canaries.items()},
    )


class Left(NamedTuple):
    """A policy in force for which nothing is decided, because its text cannot be read or its decision fails."""

    kind: str
    name: str
    subject: str
    """The pool or model that it is about. Empty: not known, so it may be any."""
    why: str = ""

    def is_about(self, subject: str) -> bool:
        return self.subject in ("", subject)


_OF_KIND = {"Scaling": "targets", "Degradation": "ladders", "Routing": "failovers", "Canary": "canaries"}


def kept(after: Memory, before: Memory, left: Iterable[Left]) -> Memory:
    """`after`, with what `before` has of policies that are left: it stays until one that can be followed says otherwise."""
    for each in left:
        name, by_name = _OF_KIND[each.kind], each.kind == "Canary"
        stood = getattr(before, name).items()
        stays = {key: value for key, value in stood if (key == each.name if by_name else each.is_about(key))}
        after = msgspec.structs.replace(after, **{name: stays | getattr(after, name)})
    return after
