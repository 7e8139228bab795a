"""Work that can wait, laid where replicas have room: into spare places first, and onto more replicas only where a deadline would be
missed, in the hours with the fewest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from forecasting.calendar import time_text
from forecasting.capacity.assumptions import HOUR_S, PlanInputs, PoolAssumptions, ReplicaCapacity, TokenMix
from forecasting.capacity.demand_on_pools import Grid, grid_of, loads_of, shares, size_of, unread, wanted_of
from forecasting.capacity.plan import Plan, PoolPlan
from forecasting.capacity.pool_capacity import carried_by
from forecasting.capacity.replicas import PoolNeed, capacity_of, changed, horizon_s, level_of, need_of
from forecasting.capacity.scenario import AS_FORECAST, Scenario
from forecasting.capacity.warm_plan import with_spare
from forecasting.series import F64, I64

Flags = npt.NDArray[np.bool_]
NO_QUOTA = 10**6
"""Replicas of a pool whose GPUs no quota limits."""
DONE = 1e-6
"""So little of a request is nothing."""


@dataclass(frozen=True, slots=True)
class OpenWork:
    """Lines of a model that are to be done until `due_s`, an epoch. `mix` is what a line takes on average; None is not known."""

    model: str
    lines: float
    due_s: float
    mix: TokenMix | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WorkPlan:
    """A pool's part of the work, in steps of `step_s` from `start_s`: `lines_per_s` are done, in places of `busy` replicas, and `added`
    are there beside those for clients; `replicas` are all of them. `ends_s` and `late` (lines that miss their deadline) are those of each
    work in turn; None is not known, or after the plan. `is_sure`: no replica carries more than was measured, and a quota says how many
    there may be.
    """

    pool: str
    model: str
    start_s: int
    step_s: int
    lead_s: int
    lines: float
    lines_per_s: F64
    busy: F64
    added: I64
    replicas: I64
    ends_s: tuple[float | None, ...]
    late: tuple[float | None, ...]
    is_sure: bool
    reason: str

    @property
    def is_known(self) -> bool:
        return None not in self.late

    @property
    def replica_hours(self) -> float:
        """Of those that are added."""
        return float(self.added.sum()) * self.step_s / HOUR_S

    @property
    def end_s(self) -> float | None:
        """When the last line is done; None where that is not known, after the plan, or where some are late."""
        known = [each for each in self.ends_s if each is not None]
        return max(known) if known and len(known) == len(self.ends_s) else None

    def by_hour(self, values: F64 | I64) -> list[float]:
        """The most of each hour."""
        most: list[float] = values.reshape(-1, HOUR_S // self.step_s).max(axis=1).tolist()
        return most

    @property
    def replicas_more(self) -> int:
        return int(self.added.max(initial=0))

    def wanted_at(self, now_s: float) -> int:
        """The most replicas from then until one that is created then is warm; 0 where none of them is for lines."""
        first = max(0, int(now_s - self.start_s) // self.step_s)
        soon = slice(first, first + 2 - (-self.lead_s // self.step_s))  # up to the first step that begins then
        return int(self.replicas[soon].max(initial=0)) if self.added[soon].any() else 0

    @property
    def late_lines(self) -> float:
        return sum(each or 0.0 for each in self.late)


WORK_HOURS = 26
"""The longest window of a batch ends within them."""


def with_lines(plan: Plan, works: Sequence[WorkPlan]) -> Plan:
    """`plan`, with the replicas that are added for work that can wait, in those of its hours that the plans of work have."""
    added = {each.pool: each for each in works if each.added.any()}
    return replace(plan, pools=tuple(_with(pool, added.get(pool.pool)) for pool in plan.pools))


def _with(pool: PoolPlan, work: WorkPlan | None) -> PoolPlan:
    if work is None:
        return pool
    by_hour, first = work.by_hour(work.added), (work.start_s - pool.start_s) // HOUR_S
    lines = np.zeros_like(pool.replicas)
    for at in range(max(0, first), min(len(lines), first + len(by_hour))):
        lines[at] = by_hour[at - first]
    return replace(pool, replicas=pool.replicas + lines, lines=lines)


def work_plans(
    inputs: PlanInputs, works: Sequence[OpenWork], now_s: float, scenario: Scenario = AS_FORECAST
) -> tuple[WorkPlan, ...]:
    """Of each pool that has any of the `works`, with the scenario's changes of clients' demand and of pools. Those of a model are shared
    among its pools by their weights.
    """
    if not works:
        return ()
    inputs = replace(inputs, pools=tuple(changed(inputs, scenario)))
    grid = grid_of(inputs)
    loads = loads_of(wanted_of(inputs, level_of(inputs, scenario), grid), scenario, grid)
    parts = [shares(inputs.pools, load.model, load.region) for load in loads]
    needs = {pool.pool: need_of(pool, loads, parts, grid) for pool in inputs.pools}
    base = {pool.pool: with_spare(needs[pool.pool].warm, pool) for pool in inputs.pools}
    forecast, incomplete = {name for each in parts for name in each}, unread(inputs)
    plans = []
    for pool in inputs.pools:
        share = shares(inputs.pools, pool.model, "").get(pool.pool, 0.0)
        own = [(at, each) for at, each in enumerate(works) if each.model == pool.model and share]
        if not own:
            continue
        its = [OpenWork(each.model, each.lines * share, each.due_s, each.mix) for _, each in own]
        capacity = capacity_of(pool)
        if capacity is None:
            why = f"What a replica of {pool.variant} carries on {pool.gpu} is not known"
            plan = _unknown(pool, its, base[pool.pool], grid, inputs, why)
        elif pool.pool not in forecast or pool.pool in incomplete:
            why = f"No demand of clients is forecast for {pool.pool}, so what it leaves is not known"
            plan = _unknown(pool, its, base[pool.pool], grid, inputs, why)
        else:
            most = _most(pool, inputs, base, grid)
            plan = _laid(pool, capacity, needs[pool.pool], base[pool.pool], most, its, grid, inputs, now_s)
        plans.append(_in_turn(plan, [at for at, _ in own], len(works)))
    return tuple(plans)


def _in_turn(plan: WorkPlan, places: Sequence[int], count: int) -> WorkPlan:
    """With ends and what is late in the order of all works. Of those that are not the pool's, nothing is late."""
    ends: list[float | None] = [0.0] * count
    late: list[float | None] = [0.0] * count
    for at, end_s, missed in zip(places, plan.ends_s, plan.late, strict=True):
        ends[at], late[at] = end_s, missed
    return replace(plan, ends_s=tuple(ends), late=tuple(late))


def _unknown(
    pool: PoolAssumptions, works: Sequence[OpenWork], base: I64, grid: Grid, inputs: PlanInputs, why: str
) -> WorkPlan:
    steps = grid.hours * grid.per_hour
    lines = sum(each.lines for each in works)
    return WorkPlan(
        pool.pool,
        pool.model,
        grid.start_s,
        grid.step_s,
        horizon_s(pool, inputs.margin_s),
        lines,
        np.zeros(steps),
        np.zeros(steps),
        np.zeros(steps, np.int64),
        base,
        (None,) * len(works),
        (None,) * len(works),
        False,
        f"{why}: when {lines:,.0f} lines will be done is not known, and no replica is added for them.",
    )


def _most(pool: PoolAssumptions, inputs: PlanInputs, base: dict[str, I64], grid: Grid) -> I64:
    """Replicas that the quota leaves the pool beside the others, by step."""
    steps = grid.hours * grid.per_hour
    for quota in inputs.quotas:
        if (quota.region, quota.gpu) == (pool.region, pool.gpu):
            others = sum(
                (
                    base[it.pool] * _gpus(it)
                    for it in inputs.pools
                    if it is not pool and (it.region, it.gpu) == (pool.region, pool.gpu)
                ),
                np.zeros(steps, np.int64),
            )
            left: I64 = np.maximum(0, quota.gpus - others) // max(1, _gpus(pool))
            return left
    return np.full(steps, NO_QUOTA, np.int64)


def _gpus(pool: PoolAssumptions) -> int:
    capacity = capacity_of(pool)
    return pool.gpus_per_replica if capacity is None else capacity.gpus_per_replica


def _laid(
    pool: PoolAssumptions,
    capacity: ReplicaCapacity,
    need: PoolNeed,
    base: I64,
    most: I64,
    works: Sequence[OpenWork],
    grid: Grid,
    inputs: PlanInputs,
    now_s: float,
) -> WorkPlan:
    """By earliest deadline. `base` replicas are there for clients."""
    starts = grid.times_s().astype(np.float64)
    seconds = np.clip(starts + grid.step_s - now_s, 0.0, grid.step_s)
    lead_s = horizon_s(pool, inputs.margin_s)
    can_start = starts >= now_s + lead_s
    used, lines = np.zeros(len(starts)), np.zeros(len(starts))
    added = np.zeros(grid.hours, np.int64)

    def room(more: I64) -> F64:
        there = base + np.where(can_start, np.repeat(more, grid.per_hour), 0)
        left: F64 = np.maximum(carried_by(there, capacity) - need.units, 0.0) * seconds - used
        return np.maximum(left, 0.0)

    ends: list[float | None] = [None] * len(works)
    late: list[float | None] = [0.0] * len(works)
    for at in sorted(range(len(works)), key=lambda each: works[each].due_s):
        its = works[at]
        of_a_line = size_of(its.mix.input_tokens, its.mix.output_tokens, capacity) if its.mix else 1.0
        todo = its.lines * of_a_line
        until = int(min(len(starts), max(0, (its.due_s - grid.start_s) // grid.step_s)))
        falls_due = its.due_s <= grid.end_s
        free = room(added)
        if falls_due and free[:until].sum() < todo - DONE and not capacity.lower_bound:
            in_time = can_start & (np.arange(len(starts)) < until)
            helps = in_time.reshape(grid.hours, grid.per_hour).max(axis=1)
            enough = partial(_has, room, until, todo)
            added = _more(added, enough, base, most, helps, grid)
            free = room(added)
        taken = _earliest(free[:until] if falls_due else free, todo)
        used[: len(taken)] += taken
        lines[: len(taken)] += taken / of_a_line
        missing = todo - float(taken.sum())
        if missing > DONE * max(1.0, todo):
            late[at] = missing / of_a_line if falls_due else 0.0
        else:
            last = int(np.flatnonzero(taken).max(initial=0))
            ends[at] = float(starts[last]) + grid.step_s
    steps_added = np.where(can_start, np.repeat(added, grid.per_hour), 0)
    known_tokens = all(each.mix is not None for each in works)
    is_limited = bool((most < NO_QUOTA).all())
    return WorkPlan(
        pool.pool,
        pool.model,
        grid.start_s,
        grid.step_s,
        lead_s,
        sum(each.lines for each in works),
        np.divide(lines, grid.step_s),
        used / grid.step_s / capacity.requests_per_s,
        steps_added,
        base + steps_added,
        tuple(ends),
        tuple(late),
        is_limited and known_tokens and not capacity.lower_bound,
        _reason(works, steps_added, ends, sum(each or 0.0 for each in late), capacity, grid),
    )


def _has(room: Callable[[I64], F64], until: int, todo: float, more: I64) -> bool:
    return float(room(more)[:until].sum()) >= todo - DONE


def _more(added: I64, enough: Callable[[I64], bool], base: I64, most: I64, helps: Flags, grid: Grid) -> I64:
    """Replicas by hour that are `enough`, or as many as may be: of the hours in which more of them help those with the fewest get them
    first, of equal ones the earlier.
    """
    before = base.reshape(grid.hours, grid.per_hour).max(axis=1)
    left = np.maximum(0, most.reshape(grid.hours, grid.per_hour).min(axis=1) - before)

    def to(level: int) -> I64:
        raised: I64 = np.where(helps, np.maximum(added, np.clip(level - before, 0, left)), added)
        return raised

    low, high = 0, int(before.max(initial=0)) + 1
    while not enough(to(high)):
        if not (to(high) < left)[helps].any():
            return to(high)
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(to(middle)) else (middle, high)
    out = to(high)
    for hour in np.flatnonzero(out > to(high - 1))[::-1].tolist():
        fewer = out.copy()
        fewer[hour] -= 1
        if enough(fewer):
            out = fewer
    return out


def _earliest(free: F64, todo: float) -> F64:
    """What is taken of each, the first first."""
    before = np.concatenate([np.zeros(1), np.cumsum(free)[:-1]]) if len(free) else free
    taken: F64 = np.clip(todo - before, 0.0, free)
    return taken


def _reason(
    works: Sequence[OpenWork],
    added: I64,
    ends: Sequence[float | None],
    late: float,
    capacity: ReplicaCapacity,
    grid: Grid,
) -> str:
    lines = sum(each.lines for each in works)
    known = [each for each in ends if each is not None]
    done = f"by {time_text(max(known))}" if len(known) == len(ends) else "after the end of the plan"
    said = []
    if late:
        why = (
            "a replica may carry more than was measured, so none is added"
            if capacity.lower_bound
            else "the quota of GPUs leaves no more replicas, or there is no time to start them"
        )
        said.append(f"{late:,.0f} of {lines:,.0f} lines would miss their deadline: {why}.")
    if added.any():
        hours = int(added.reshape(grid.hours, grid.per_hour).any(axis=1).sum())
        first = time_text(grid.start_s + int(np.flatnonzero(added)[0]) * grid.step_s)
        said.append(
            f"What the demand leaves is too little for {lines:,.0f} lines: up to {int(added.max())} more in {hours} h, from {first} on."
        )
    elif not late:
        said.append(f"{lines:,.0f} lines fit beside the demand, {done}: none is added.")
    if any(each.mix is None for each in works):
        said.append("Tokens of lines are not known yet: each counts as a request with which the capacity was measured.")
    return " ".join(said)
