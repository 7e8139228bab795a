"""Moves a canary on: from step to step, and to its end. What `sequential` concludes decides."""

import math
from typing import NamedTuple

from msgspec import structs

from controlplane.policy.core.decision import Alarm, Transition
from controlplane.policy.core.memory import CanaryLook, CanaryMemory, Outcome
from controlplane.policy.core.observation import CanaryCounts, PoolFacts, fresh
from controlplane.policy.core.sequential import CanaryTest, look, looks_at
from controlplane.policy.core.spec import CanarySpec
from controlplane.policy.core.words import replicas, seconds

FRESH_S = 60.0
"""Counts that are older say nothing."""
CONCLUDED: dict[str, Outcome] = {"promote": "promoted", "roll_back": "rolled_back"}


class Advanced(NamedTuple):
    """What is remembered (nothing before it has begun), percent of the requests by pool, what changed, and what people have to know of."""

    memory: CanaryMemory | None
    percent: dict[str, int]
    transition: Transition | None
    alarm: Alarm | None


def test_of(spec: CanarySpec) -> CanaryTest:
    return CanaryTest(
        max_requests=spec.max_requests,
        quantile=spec.latency_quantile,
        tolerance=spec.latency_tolerance,
        error_tolerance=spec.error_tolerance,
        alpha=spec.alpha,
        beta=spec.beta,
        measures={each.measure: (each.quantile, each.tolerance) for each in spec.measures},
    )


def due_at(spec: CanarySpec, memory: CanaryMemory) -> int:
    """The requests of the candidate from which on `advance` may conclude something: those of the next look, or of the next step."""
    judged = memory.looks[-1].requests if memory.looks else 0
    looks = (due for due in looks_at(test_of(spec)) if due > judged)
    steps = (
        math.ceil(entered * spec.max_requests / len(spec.steps))
        for entered in (len(memory.entered),)
        if entered < len(spec.steps)
    )
    return min((*looks, *steps), default=spec.max_requests)


def waits_for(pool: str, facts: PoolFacts | None) -> str:
    """Why the pool cannot take more requests yet, as a sentence; empty where all its replicas that are asked for are ready."""
    if facts is None or facts.disabled:
        return f"{pool} is not in the fleet, or disabled"
    if facts.reachable is False and fresh(facts.traffic_age_ms, FRESH_S):
        return f"no gateway reaches a replica of {pool}"
    if (
        facts.wanted is None and facts.reachable and fresh(facts.traffic_age_ms, FRESH_S)
    ):  # it runs in no cluster of Weir's
        return ""
    if facts.wanted is None or facts.ready is None or not fresh(facts.cluster_age_ms, FRESH_S):
        return f"whether the replicas of {pool} are ready is not known"
    if not facts.ready:
        return f"no replica of {pool} is ready"
    return f"{facts.ready} of {replicas(facts.wanted)} of {pool} are ready" if facts.ready < facts.wanted else ""


def clocked(memory: CanaryMemory | None, now_ms: int, *, paused: bool) -> CanaryMemory | None:
    """With how long it is, or was, paused while it runs: that is none of its time."""
    if memory is None or memory.outcome != "running" or paused is (memory.paused_since_ms is not None):
        return memory
    if paused:
        return structs.replace(memory, paused_since_ms=now_ms)
    over_ms = max(0, now_ms - (memory.paused_since_ms or now_ms))
    return structs.replace(memory, paused_since_ms=None, paused_ms=memory.paused_ms + over_ms)


def advance(
    name: str,
    spec: CanarySpec,
    digest: str,
    counts: CanaryCounts | None,
    memory: CanaryMemory | None,
    now_ms: int,
    waits: str = "",
) -> Advanced:
    """Moves the canary of this name on. Without fresh counts of its own it stays where it is, until its time is over.

    Each step lasts for an equal part of `max_requests` of the candidate, or until the candidate is shown to be as good. It is promoted
    from the last step only, and rolled back from any. What a person concludes holds at once. While it `waits` no step begins.
    """
    before = memory
    if memory is None or memory.digest != digest:
        before, memory = None, CanaryMemory(entered=((now_ms, spec.steps[0]),), digest=digest)
    if spec.conclude and memory.outcome != (concluded := CONCLUDED[spec.conclude]):
        reason = f"{spec.candidate} is {concluded.replace('_', ' ')}, because its policy says so"
        memory = structs.replace(memory, outcome=concluded, reason=reason, ended_ms=now_ms)
        return _moved(name, spec, before, memory, reason)
    if before is None and waits:
        share = {spec.baseline: 100, spec.candidate: 0}
        return Advanced(None, share, None, _waiting(name, spec, f"{spec.candidate} gets no requests yet", waits))
    if before is None:
        return _moved(name, spec, None, memory, f"{spec.candidate} begins with {spec.steps[0]} % of the requests")
    took_ms = now_ms - memory.entered[0][0] - memory.paused_ms
    if memory.outcome == "running" and took_ms >= spec.time_limit_s * 1_000:
        verb = "is rolled back" if spec.on_fail == "roll_back" else "waits for a person"
        reason = f"{spec.candidate} {verb}: {seconds(spec.time_limit_s)} did not show that it is as good"
        outcome: Outcome = "rolled_back" if spec.on_fail == "roll_back" else "held"
        after = structs.replace(memory, outcome=outcome, reason=reason, ended_ms=now_ms)
        return _moved(name, spec, memory, after, reason)
    usable = counts is not None and counts.since_ms == memory.entered[0][0] and fresh(counts.age_ms, FRESH_S)
    if counts is None or not usable or memory.outcome != "running":
        return _moved(name, spec, memory, memory, memory.reason)
    effects = (counts.candidate_design_effect, counts.baseline_design_effect)
    seen = look(test_of(spec), counts.strata, [each.requests for each in memory.looks], effects)
    after = structs.replace(memory, looks=(*memory.looks, seen)) if seen else memory
    current, last = len(memory.entered) - 1, len(spec.steps) - 1
    served = sum(stratum.candidate.requests for stratum in counts.strata)
    ready = min(served * len(spec.steps) // spec.max_requests, last) > current
    ends = _outcome(spec, seen, is_last=current == last or served >= spec.max_requests) if seen else None
    rises = ends == "promoted" or (ends is None and (ready or (seen is not None and seen.verdict == "equal")))
    if rises and waits:
        after = memory if seen and seen.verdict == "equal" else after  # a look that cannot be followed is taken again
        text = f"{spec.candidate} gets no more than {memory.percent} % of the requests yet"
        return _moved(name, spec, memory, after, "")._replace(alarm=_waiting(name, spec, text, waits))
    if seen and ends:
        after = structs.replace(after, outcome=ends, reason=_sentence(spec, seen, counts), ended_ms=now_ms)
        return _moved(name, spec, memory, after, after.reason)
    if rises:
        after = structs.replace(after, entered=(*after.entered, (now_ms, spec.steps[current + 1])))
        reason = f"{served:,} requests of {spec.candidate} do not show that it is worse"
        return _moved(name, spec, memory, after, reason)
    return _moved(name, spec, memory, after, "")


def _outcome(spec: CanarySpec, seen: CanaryLook, *, is_last: bool) -> Outcome | None:
    match seen.verdict:
        case "worse" | "undecided":
            return "rolled_back" if spec.on_fail == "roll_back" else "held"
        case "equal" if is_last:
            return "promoted" if spec.on_equal == "promote" else "held"
        case _:
            return None


def _moved(name: str, spec: CanarySpec, before: CanaryMemory | None, after: CanaryMemory, reason: str) -> Advanced:
    percent = {"promoted": 100, "rolled_back": 0}.get(after.outcome, after.percent)
    was, now = _words(before) if before else "not begun", _words(after)
    failed = after.ended_ms is not None and not spec.conclude and after.outcome in ("rolled_back", "held")
    failed = failed and not (after.looks and after.looks[-1].verdict == "equal")
    return Advanced(
        after,
        {spec.baseline: 100 - percent, spec.candidate: percent},
        Transition("canary", name, was, now, reason) if was != now else None,
        Alarm(f"canary:{name}", "canary", spec.model, after.reason) if failed else None,
    )


def _waiting(name: str, spec: CanarySpec, what: str, why: str) -> Alarm:
    return Alarm(f"canary_waits:{name}", "canary_waits", spec.model, f"{what}: {why}.")


def _words(memory: CanaryMemory) -> str:
    match memory.outcome:
        case "running":
            return f"{memory.percent} %"
        case "held":
            return f"held at {memory.percent} %"
        case outcome:
            return outcome.replace("_", " ")


def _sentence(spec: CanarySpec, seen: CanaryLook, counts: CanaryCounts) -> str:
    done = {
        ("equal", True): "is promoted",
        ("equal", False): "is as good, and waits for a person",
        ("worse", True): "is rolled back",
        ("worse", False): "is worse, and waits for a person",
    }
    as_good = seen.verdict == "equal"
    acts = spec.on_equal == "promote" if as_good else spec.on_fail == "roll_back"
    verb = done["equal" if as_good else "worse", acts]
    failed, base_failed, base = (
        sum(number)
        for number in zip(
            *((each.candidate.failed, each.baseline.failed, each.baseline.requests) for each in counts.strata),
            strict=True,
        )
    )
    failures = f"; {failed:,} of them failed, and {base_failed:,} of the baseline's {base:,}" if failed else ""
    return f"{spec.candidate} {verb} after {seen.requests:,} requests: {seen.reason}{failures}"
