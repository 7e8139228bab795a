"""How many replicas are wanted: the highest of what the load, the forecast and the floor ask for (docs/scaling.md)."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from controlplane.policy.core import arrival_rate
from controlplane.policy.core.decision import Candidate, Proposed
from controlplane.policy.core.memory import LoadMemory, TargetMemory
from controlplane.policy.core.observation import (
    BURN_STALE_AFTER_S,
    METRIC_STALE_AFTER_S,
    BurnFacts,
    MetricFacts,
    PoolFacts,
    PoolPlan,
    fresh,
)
from controlplane.policy.core.schedules import scheduled
from controlplane.policy.core.spec import GPU_USE, ScalingSpec
from controlplane.policy.core.words import replicas, seconds
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.pool_capacity import KEPT_FOR, replicas_of

DRAINED_WITHIN_S = 60.0
"""A backlog is to be gone so soon after the replicas that are added for it are there, or within a cold start where that is longer."""
TRIED = 1.1
"""A replica whose limit no traffic has shown is filled to so many times the most that it has carried, so that traffic shows it."""
OVERTAKEN = 1.1
"""A load that needs more than the forecast's replicas and is so many times what they carry has overtaken it (HPA's tolerance)."""
WANTED_RPS = 1 / 3_600
"""A pool without replicas gets one from a request an hour on: one that arrives now counts for more for about twelve minutes."""
UNSEEN_S = 60.0
"""What was needed is not known where ticks are further apart: nobody decided, or the clock was set."""
HELPED = ("queue", "model")
"""Stages that more replicas shorten."""
SLACK = 1e-9


class _Needed(NamedTuple):
    """A count, and the one that it must not fall below while it is larger: the scale-down has a dead band."""

    candidate: Candidate
    kept: int


def candidates(
    spec: ScalingSpec, facts: PoolFacts, plan: PoolPlan | None, memory: TargetMemory, now_ms: int
) -> Proposed:
    """The candidates, and the highest of them after the scale-down was slowed. Rails come afterwards."""
    known = fresh(facts.traffic_age_ms, spec.stale_after_s)
    seen = _load(facts, memory.load, now_ms) if known else memory.load
    forecast = _forecast(plan, now_ms) if plan is not None and spec.forecast == "auto" else None
    needed = [_floor(spec, facts, now_ms)]
    needed += _from_zero(facts, seen)
    needed += _by_load(spec, facts, seen, forecast)
    needed += _by_signals(spec, facts)
    needed += _by_lines(facts)
    if forecast is not None:
        needed.append(forecast)
    highest = max((each.candidate for each in needed), key=lambda candidate: candidate.count)
    since_ms = now_ms - round(spec.scale_down.stabilisation_s * 1_000)
    kept = max(each.kept for each in needed)
    # What was needed before the first tick, while no tick looked, or while the traffic is not known: at most what stands, which therefore
    # stays for as long as any other count.
    kept = kept if known else max(kept, facts.wanted or 0)
    past = memory.recommended
    if facts.wanted is not None and (not past or now_ms - past[-1][0] > UNSEEN_S * 1_000):
        past = (*past, (now_ms, facts.wanted))
    recommended = (*(each for each in past if each[0] > since_ms and each[1] > kept), (now_ms, kept))
    wanted, reason = highest.count, f"{highest.source}: {highest.reason}"
    if facts.wanted is not None and wanted < facts.wanted:
        slowed = min(facts.wanted, max(count for _, count in recommended))
        if slowed > wanted:
            wanted = slowed
            reason = (
                f"{replicas(slowed)} would have been needed within the last {seconds(spec.scale_down.stabilisation_s)}"
            )
    after = msgspec.structs.replace(memory, recommended=recommended, load=seen)
    return Proposed(tuple(each.candidate for each in needed), wanted, reason, after)


def _floor(spec: ScalingSpec, facts: PoolFacts, now_ms: int) -> _Needed:
    running = scheduled(spec.schedules, now_ms, facts.cold_start_s or 0.0)
    floor = max(spec.min, spec.warm_floor, running.floor if running else 0)
    by_clock = f", {running.floor} by the schedule {running.name}" if running else ""
    return _Needed(Candidate(floor, "floor", f"{spec.min} at least, {spec.warm_floor} warm{by_clock}"), floor)


def _from_zero(facts: PoolFacts, seen: LoadMemory | None) -> Iterator[_Needed]:
    """The first replica of a pool that has none, as soon as a request arrives: what a replica carries does not matter for it."""
    if facts.wanted == 0 and ((seen is not None and seen.steady_rps >= WANTED_RPS) or facts.waiting):
        yield _signal(1, 1, "requests arrive, and the pool has no replica")


def _load(facts: PoolFacts, before: LoadMemory | None, now_ms: int) -> LoadMemory | None:
    """What is known of the load, without lines of the lane, which come where there is room. While no replica serves, or a gateway
    reaches none, clients go elsewhere and come back: then it rises, and does not fall.
    """
    arrived_rps = None if facts.arrived_rps is None else max(0.0, facts.arrived_rps - (facts.lines_rps or 0.0))
    after = arrival_rate.seen(before, arrived_rps, now_ms, facts.cold_start_s, facts.heard_s)
    if (
        (serves(facts) and not facts.cut_off)
        or before is None
        or after is None
        or after.steady_rps >= before.steady_rps
    ):
        return after
    return msgspec.structs.replace(before, at_ms=now_ms)


def serves(facts: PoolFacts) -> bool:
    """Whether a replica is ready and reached, or none is to be. What is not known counts as serving: other rails hold then."""
    return facts.reachable is not False and not (facts.wanted and facts.ready == 0)


def sized(spec: ScalingSpec, facts: PoolFacts) -> bool:
    """Whether anything says how many replicas the load of now needs. What waits only says that more are needed, and that what those which
    serve have in use is not all.
    """
    signals = spec.reactive
    in_proportion = (
        (facts.in_flight, signals.in_flight_per_replica),
        (facts.kv_use, signals.kv_use),
        (facts.cpu_use, signals.cpu_use),
    )
    if _capacity(spec, facts) is not None:
        return True
    known = any(use is not None and each for use, each in in_proportion)
    return not facts.waiting and (known or any(level(facts, key) for key in signals.stored))


def level(facts: PoolFacts, key: str) -> MetricFacts | None:
    """Of a signal that is read from the store, unless it is too old."""
    its = facts.metrics.get(key)
    return its if its is not None and fresh(its.age_ms, METRIC_STALE_AFTER_S) else None


def _forecast(plan: PoolPlan, now_ms: int) -> _Needed | None:
    """What must be created by now to be warm in time; None where the forecast does not reach so far, or is no better than the baseline."""
    if not (plan.skill is not None and plan.skill > 0):
        return None
    first = (now_ms - plan.start_ms) // plan.step_ms
    last = (now_ms + plan.horizon_ms - plan.start_ms) // plan.step_ms
    if first < 0 or last >= len(plan.warm):
        return None
    count = max(plan.warm[first : last + 1])
    return _Needed(
        Candidate(count, "forecast", f"{plan.forecaster} at P{100 * (plan.level or 0):g}. {plan.reason}"),
        max(plan.kept[first : last + 1], default=count),
    )


def _by_lines(facts: PoolFacts) -> Iterator[_Needed]:
    """What the lane's work needs beside the clients' so as to be done in time."""
    if facts.lines_replicas is not None:
        yield _Needed(Candidate(facts.lines_replicas, "lines", facts.lines_reason), facts.lines_replicas)


def _by_load(
    spec: ScalingSpec, facts: PoolFacts, seen: LoadMemory | None, forecast: _Needed | None
) -> Iterator[_Needed]:
    """What the requests that arrive need, and the backlog, and room for what may come within a cold start.

    The room is a share of what replicas carry, for the load that lasts: a burst that will be over by then takes it, and gets none of its
    own. A forecast that counts has that room in its quantile; but one that the load has overtaken has none.

    Of a load that was seen for a few seconds, what may be chance adds none, and removes none either.

    That a replica has carried so much is enough to remove others, and says nothing of how many more are needed: what stands stays, up
    to a little more than it has carried.
    """
    capacity = _capacity(spec, facts)
    if seen is None or capacity is None:
        return
    needed_rps = load_rps(facts, seen)
    foreseen = forecast is not None and replicas_of(needed_rps / OVERTAKEN, capacity) <= forecast.candidate.count
    lasting_rps = needed_rps if foreseen else arrival_rate.lasting_rps(seen, needed_rps)
    share = 1.0 if foreseen else spec.reactive.utilisation
    sized_rps = max(needed_rps, lasting_rps / share)

    def count_of(times: float) -> int:
        most = replicas_of(times * sized_rps, capacity)
        if not capacity.lower_bound or facts.wanted is None:
            return most
        return min(most, max(facts.wanted, replicas_of(times * needed_rps / TRIED, capacity)))

    if lasting_rps / share >= needed_rps:
        lasting = f", {lasting_rps:.3g} of which last" if lasting_rps < 0.99 * needed_rps else ""
        lasting = f", {lasting_rps:.3g} expected" if lasting_rps > 1.01 * needed_rps else lasting
    else:
        lasting, share = f", more than the room for {lasting_rps:.3g}", 1.0
    waiting = f" and {facts.waiting:.3g} waiting" if facts.waiting else ""
    at_least = "at least " if capacity.lower_bound else ""
    carried = f"{at_least}{capacity.requests_per_s * share:.3g} requests/s a replica"
    shown = arrival_rate.shown_share(seen)
    looked = f", seen for {seconds(seen.shown_s)}: {shown:.0%} of it is no chance" if seen.shown_s is not None else ""
    reason = f"{seen.steady_rps:.3g} requests/s{looked}{waiting}{lasting}, at {carried}"
    yield _Needed(Candidate(count_of(shown), "reactive", reason), count_of(KEPT_FOR))


def _capacity(spec: ScalingSpec, facts: PoolFacts) -> ReplicaCapacity | None:
    if spec.reactive.replica_rps:
        return ReplicaCapacity(spec.reactive.replica_rps, "entered")
    return measured_capacity(facts)


def measured_capacity(facts: PoolFacts) -> ReplicaCapacity | None:
    """What a replica carries, as planning knows it; None where it does not."""
    if not facts.capacity_rps:
        return None
    return ReplicaCapacity(
        facts.capacity_rps,
        "ledger",
        batching_factor=facts.batching_factor,
        slots=facts.slots,
        measured_replicas=facts.capacity_replicas,
        lower_bound=facts.capacity_is_lower_bound,
    )


def load_rps(facts: PoolFacts, seen: LoadMemory) -> float:
    """The requests/s that arrive, and the backlog, which is to be gone within a cold start or a minute."""
    return seen.steady_rps + (facts.waiting or 0.0) / max(DRAINED_WITHIN_S, facts.cold_start_s or 0.0)


def _by_signals(spec: ScalingSpec, facts: PoolFacts) -> Iterator[_Needed]:
    """What each signal needs that the policy names. Replicas that start are counted: more are not added for the same load."""
    wanted, gpus = spec.reactive, level(facts, GPU_USE)
    levels = [(metric, level(facts, metric.key)) for metric in wanted.metrics]
    for name, total, each in (
        ("requests waiting", facts.waiting, wanted.waiting_per_replica),
        ("requests in flight", facts.in_flight, wanted.in_flight_per_replica),
        *((metric.key, its.total, metric.most) for metric, its in levels if its and metric.of == "total"),
    ):
        if total is not None and each:
            reason = f"{total:.3g} {name}, at {each:g} a replica"
            yield _signal(math.ceil(total / each - SLACK), math.ceil(KEPT_FOR * total / each - SLACK), reason)
    for name, use, most in (
        ("KV cache", facts.kv_use, wanted.kv_use),
        ("GPUs", gpus.mean if gpus else None, wanted.gpu_use),
        ("CPU", facts.cpu_use, wanted.cpu_use),
        *((metric.key, its.mean, metric.most) for metric, its in levels if its and metric.of == "mean"),
    ):
        if use is not None and most and facts.ready:
            work = facts.ready * use / most
            if name in facts.metrics:
                reason = f"{name} is {use:.3g} on average of {replicas(facts.ready)}, at {most:g}"
            else:
                reason = f"{use:.0%} of the {name} of {replicas(facts.ready)} in use, at {most:.0%}"
            yield _signal(math.ceil(work - SLACK), math.ceil(KEPT_FOR * work - SLACK), reason)
    if facts.queue_delay_s is not None and wanted.queue_delay_s and facts.queue_delay_s > wanted.queue_delay_s:
        count = _a_step_more(facts)
        yield _signal(
            count, count, f"a wait of {facts.queue_delay_s:.3g} s, and {wanted.queue_delay_s:g} s is accepted"
        )
    yield from _by_burn(spec, facts)


def _by_burn(spec: ScalingSpec, facts: PoolFacts) -> Iterator[_Needed]:
    """An objective that burns too fast, or is missed too often: more replicas where its bad requests lose their time to queue or model,
    which those shorten. Elsewhere, and where that is not known, what stands stays.
    """
    accepted, burn = spec.reactive, facts.burns.get(spec.objective or "", BurnFacts())
    said = []
    is_fresh = fresh(burn.age_ms, BURN_STALE_AFTER_S)
    if is_fresh and accepted.burn_rate is not None and (burn.burn_rate or 0.0) > accepted.burn_rate:
        rate = f"{burn.burn_rate:.3g} times as fast as it may, and {accepted.burn_rate:g} is accepted"
        said.append(f"{spec.objective} burns {rate}")
    is_fresh = fresh(burn.bad_share_age_ms, BURN_STALE_AFTER_S)
    if is_fresh and accepted.bad_share is not None and (burn.bad_share or 0.0) > accepted.bad_share:
        share = f"{burn.bad_share:.1%} of the requests of five minutes, and {accepted.bad_share:.1%} is accepted"
        said.append(f"{spec.objective} is missed by {share}")
    count = _a_step_more(facts) if burn.stage in HELPED else (facts.wanted or 0)
    where = f"its bad requests lose their time in {burn.stage}" if burn.stage else "in which stage is not known"
    helps = "" if burn.stage in HELPED else ", so none is added"
    for each in said:
        yield _signal(count, count, f"{each}; {where}{helps}")


def _a_step_more(facts: PoolFacts) -> int:
    """How much more is needed does not follow from a delay: a step at a time, while none is on its way."""
    present = (facts.ready or 0) + (facts.starting or 0)
    on_its_way = facts.starting or facts.pending or facts.failing
    return present + (0 if on_its_way else max(1, math.ceil(present * (KEPT_FOR - 1))))


def _signal(count: int, kept: int, reason: str) -> _Needed:
    return _Needed(Candidate(count, "reactive", reason), kept)
