"""What must hold between the fields of a policy, and between a policy and the fleet."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from zoneinfo import available_timezones

from controlplane.core.documents.problem import dotted
from controlplane.policy.core.conditions import Where, fault_of
from controlplane.policy.core.spec import (
    Canary,
    CanarySpec,
    Degradation,
    DegradationSpec,
    LadderStep,
    Policy,
    Routing,
    RoutingSpec,
    Scaling,
    ScalingSpec,
    Schedule,
)
from controlplane.policy.core.structure import Fault, Path, near

SPEC: Path = ("spec",)
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")


def faults_of(policy: Policy) -> Iterator[Fault]:
    """What is wrong between the fields of a policy whose fields are right by themselves, its conditions too."""
    match policy:
        case Scaling(spec=scaling):
            yield from _scaling(scaling)
        case Routing(spec=routing):
            yield from _routing(routing)
        case Degradation(spec=ladder):
            yield from _degradation(ladder)
        case Canary(spec=canary):
            yield from _canary(canary)


def _scaling(spec: ScalingSpec) -> Iterator[Fault]:
    if (spec.pool is None) == (spec.gateway is None):
        what = "both are" if spec.pool else "neither is"
        yield SPEC, f"spec.pool and spec.gateway: {what} given: name the pool, or the workload of the API tier"
    if spec.min > spec.max:
        yield (*SPEC, "min"), f"spec.min is {spec.min}, and spec.max is {spec.max}: write at most {spec.max}"
    if spec.warm_floor > spec.max:
        yield (*SPEC, "warm_floor"), f"spec.warm_floor is {spec.warm_floor}: write at most spec.max, {spec.max}"
    for number, schedule in enumerate(spec.schedules):
        yield from _schedule(schedule, spec.max, (*SPEC, "schedules", number))
    yield from _unique([schedule.name for schedule in spec.schedules], (*SPEC, "schedules"))
    for name in ("burn_rate", "bad_share"):
        if getattr(spec.reactive, name) is not None and spec.objective is None:
            what = f"spec.reactive.{name} is given, and spec.objective is not"
            yield (*SPEC, "reactive", name), f"{what}: name the objective that it is about"
    keys = [metric.key for metric in spec.reactive.metrics]
    for number, key in enumerate(keys):
        if key in keys[:number]:
            path = (*SPEC, "reactive", "metrics", number)
            yield path, f"{dotted(path)} is {key}, as an earlier one: keep either"
    if spec.gateway is not None:
        yield from _gateway(spec)
    elif spec.reactive.cpu_use is not None:
        path = (*SPEC, "reactive", "cpu_use")
        yield path, f"spec.reactive.cpu_use is {spec.reactive.cpu_use:g}: it is for the API tier: leave it out"
    yield from _condition(spec.hold_when, "hold", (*SPEC, "hold_when"))


def _schedule(schedule: Schedule, most: int, path: Path) -> Iterator[Fault]:
    if schedule.floor > most:
        yield (*path, "floor"), f"{dotted((*path, 'floor'))} is {schedule.floor}: write at most spec.max, {most}"
    for name, text in (("start", schedule.start), ("end", schedule.end)):
        if not TIME_OF_DAY.fullmatch(text):
            yield (*path, name), f"{dotted((*path, name))} is {text!r}: write a time of day from 00:00 to 24:00"
    if schedule.start == schedule.end or schedule.start == "24:00":
        yield (
            (*path, "start"),
            f"{dotted((*path, 'start'))} is {schedule.start}: write a time before the end, such as 08:00",
        )
    if schedule.zone not in available_timezones():
        remedy = near(schedule.zone, sorted(available_timezones()))
        yield (*path, "zone"), f"{dotted((*path, 'zone'))}: there is no time zone {schedule.zone!r}: {remedy}"
    for number, day in enumerate(schedule.dates):
        with suppress(ValueError):
            if date.fromisoformat(day).isoformat() == day:
                continue
        at = (*path, "dates", number)
        yield at, f"{dotted(at)}: there is no day {day}: write one as 2026-12-24"


def _gateway(spec: ScalingSpec) -> Iterator[Fault]:
    if spec.reactive.replica_rps is None and spec.reactive.cpu_use is None:
        yield (
            (*SPEC, "reactive"),
            "spec.reactive has neither replica_rps nor cpu_use: name what a gateway may carry, such as replica_rps: 200",
        )
    for number, metric in enumerate(spec.reactive.metrics):
        if not metric.labels:
            path = (*SPEC, "reactive", "metrics", number, "labels")
            yield path, f"{dotted(path)} is empty, and this is the API tier: name the labels of its series"
    for name in ("queue_delay_s", "waiting_per_replica", "kv_use", "gpu_use", "burn_rate", "bad_share"):
        if getattr(spec.reactive, name) is not None:
            yield (
                (*SPEC, "reactive", name),
                f"spec.reactive.{name} is for pools, and this is the API tier: leave it out",
            )


def _routing(spec: RoutingSpec) -> Iterator[Fault]:
    yield from _unique([rule.name for rule in spec.rules], (*SPEC, "rules"))
    yield from _unique([failover.name for failover in spec.failover], (*SPEC, "failover"))
    if not spec.rules and not spec.failover:
        yield SPEC, "spec has neither rules nor failover: write either, or retire the policy"
    for number, rule in enumerate(spec.rules):
        path = (*SPEC, "rules", number)
        least, most = rule.when.min_prompt_tokens, rule.when.max_prompt_tokens
        if least is not None and most is not None and least > most:
            at = (*path, "when", "min_prompt_tokens")
            yield (
                at,
                f"{dotted(at)} is {least}, and max_prompt_tokens is {most}: no prompt has both, so write at most {most}",
            )
        if rule.routes and not any(rule.routes.values()):
            yield (
                (*path, "routes"),
                f"{dotted((*path, 'routes'))}: all weights are 0: give a pool a weight of 1 or more",
            )
        if rule.when == rule.when.__class__() and number + 1 < len(spec.rules):
            yield path, f"rule {rule.name!r} matches every request, so no later rule is reached: move it to the end"
    for number, failover in enumerate(spec.failover):
        path = (*SPEC, "failover", number)
        if not failover.pools:
            yield (*path, "pools"), f"{dotted((*path, 'pools'))} is empty: name the pools that may be down"
        if not any(failover.to.values()):
            yield (
                (*path, "to"),
                f"{dotted((*path, 'to'))} has no weight: name a pool that takes over, such as `central: 100`",
            )
        for pool in failover.pools:
            if pool in failover.to:
                yield (*path, "to", pool), f"{dotted((*path, 'to'))} has {pool!r}, which is failed over from: remove it"
        yield from _condition(failover.when, "failover", (*path, "when"))


def _degradation(spec: DegradationSpec) -> Iterator[Fault]:
    if not spec.tiers:
        yield (*SPEC, "tiers"), "spec.tiers is empty: name the tiers that may be degraded, the least important first"
    if not spec.steps:
        yield (*SPEC, "steps"), "spec.steps is empty: write the first step of the ladder"
    if len(set(spec.tiers)) < len(spec.tiers):
        twice = next(tier for tier in spec.tiers if spec.tiers.count(tier) > 1)
        yield (*SPEC, "tiers"), f"spec.tiers has {twice!r} twice: keep it once"
    yield from _unique([step.name for step in spec.steps], (*SPEC, "steps"))
    for number, step in enumerate(spec.steps):
        path = (*SPEC, "steps", number)
        yield from _step(step, spec.steps[:number], path)
        for name, condition in (("enter", step.enter), ("exit", step.exit)):
            if not condition.strip():
                yield (
                    (*path, name),
                    f"{dotted((*path, name))} is empty: write a condition, such as 'queue_delay_s > 2.0'",
                )
            yield from _condition(condition, "ladder", (*path, name))
        if step.enter.strip() and step.enter.strip() == step.exit.strip():
            yield (*path, "exit"), f"{dotted((*path, 'exit'))} is the same as enter: write when the step is left"


def _step(step: LadderStep, before: Sequence[LadderStep], path: Path) -> Iterator[Fault]:
    does = (step.pool, step.variant, step.max_output_tokens, step.partial, step.cached_only, step.shed)
    if not any(does):
        yield (
            path,
            (
                f"step {step.name!r} does nothing: give it pool, variant, max_output_tokens, partial, cached_only or shed"
            ),
        )
    if step.pool is not None and step.variant is not None:
        yield (*path, "variant"), f"step {step.name!r} has a pool and a variant: keep either"
    caps = [each.max_output_tokens for each in before if each.max_output_tokens is not None]
    if step.partial and step.max_output_tokens is None and not caps:
        at = (*path, "partial")
        yield at, f"{dotted(at)} is true, but no step up to here has max_output_tokens: write where answers are cut"
    if caps and step.max_output_tokens is not None and step.max_output_tokens >= min(caps):
        at = (*path, "max_output_tokens")
        yield at, f"{dotted(at)} is {step.max_output_tokens}, and a step before has {min(caps)} already: write less"
    if any(each.shed for each in before):
        yield path, f"step {step.name!r} comes after one that sheds all requests: move it before that"


def _canary(spec: CanarySpec) -> Iterator[Fault]:
    if spec.baseline == spec.candidate:
        yield (*SPEC, "candidate"), f"spec.candidate is {spec.candidate!r}, as spec.baseline: name another pool"
    if not spec.steps:
        yield (*SPEC, "steps"), "spec.steps is empty: write percents, such as [5, 25, 50]"
    if len({each.measure for each in spec.measures}) < len(spec.measures):
        yield (*SPEC, "measures"), "spec.measures has a measure twice: keep it once"
    if list(spec.steps) != sorted(set(spec.steps)):
        yield (*SPEC, "steps"), f"spec.steps is {list(spec.steps)}: write percents that rise"


def _unique(names: Sequence[str], path: Path) -> Iterator[Fault]:
    for number, name in enumerate(names):
        if name in names[:number]:
            yield (
                (*path, number, "name"),
                f"{dotted((*path, number, 'name'))} is {name!r}, as an earlier one: rename either",
            )


def _condition(condition: str, where: Where, path: Path) -> Iterator[Fault]:
    if condition.strip() and (fault := fault_of(condition, where)):
        yield path, f"{dotted(path)}: {fault}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The names that a policy may refer to."""

    models: Collection[str] = ()
    pools: Collection[str] = ()
    gateways: Collection[str] = ()
    variants: Collection[str] = ()
    tiers: Collection[str] = ()
    regions: Collection[str] = ()
    tenants: Collection[str] = ()
    objectives: Collection[str] = ()
    teams: Collection[str] = ()


def unknown_names(policy: Policy, fleet: Fleet) -> Iterator[Fault]:
    """The names of a policy that the fleet does not have. A pool of another model may serve, as a fallback may."""
    if policy.metadata.team and policy.metadata.team not in fleet.teams:
        yield _unknown(("metadata", "team"), "team", policy.metadata.team, fleet.teams)
    match policy:
        case Scaling(spec=scaling):
            yield from _known((*SPEC, "pool"), "pool", [scaling.pool], fleet.pools)
            yield from _known((*SPEC, "gateway"), "workload of the API tier", [scaling.gateway], fleet.gateways)
            yield from _known((*SPEC, "objective"), "objective", [scaling.objective], fleet.objectives)
        case Routing(spec=routing):
            yield from _known((*SPEC, "model"), "model", [routing.model], fleet.models)
            for number, rule in enumerate(routing.rules):
                path = (*SPEC, "rules", number)
                yield from _known((*path, "when", "tiers"), "tier", rule.when.tiers, fleet.tiers)
                yield from _known((*path, "when", "regions"), "region", rule.when.regions, fleet.regions)
                yield from _known((*path, "when", "tenants"), "tenant", rule.when.tenants, fleet.tenants)
                yield from _known((*path, "routes"), "pool", tuple(rule.routes), fleet.pools)
                yield from _known((*path, "fallbacks"), "pool", rule.fallbacks, fleet.pools)
            for number, failover in enumerate(routing.failover):
                path = (*SPEC, "failover", number)
                yield from _known((*path, "pools"), "pool", failover.pools, fleet.pools)
                yield from _known((*path, "to"), "pool", tuple(failover.to), fleet.pools)
        case Degradation(spec=ladder):
            yield from _known((*SPEC, "model"), "model", [ladder.model], fleet.models)
            yield from _known((*SPEC, "tiers"), "tier", ladder.tiers, fleet.tiers)
            for number, step in enumerate(ladder.steps):
                path = (*SPEC, "steps", number)
                yield from _known((*path, "pool"), "pool", [step.pool], fleet.pools)
                yield from _known((*path, "variant"), "variant", [step.variant], fleet.variants)
        case Canary(spec=canary):
            yield from _known((*SPEC, "model"), "model", [canary.model], fleet.models)
            yield from _known((*SPEC, "baseline"), "pool", (canary.baseline,), fleet.pools)
            yield from _known((*SPEC, "candidate"), "pool", (canary.candidate,), fleet.pools)


def _known(path: Path, what: str, names: Sequence[str | None], known: Collection[str]) -> Iterator[Fault]:
    for name in names:
        if name is not None and name not in known:
            yield _unknown(path, what, name, known)


def _unknown(path: Path, what: str, name: str, known: Collection[str]) -> Fault:
    remedy = near(name, sorted(known)) if known else f"enter the {what} first"
    return path, f"{dotted(path)}: there is no {what} {name!r}: {remedy}"
