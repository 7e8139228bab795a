"""A plan as a page shows it: totals by pool and region, the hours of all pools, and of one pool with their reasons."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import numpy as np

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.badge import Badge
from controlplane.dashboard.core.figures.plan import Hours
from controlplane.dashboard.core.zone import minute
from controlplane.telemetry.query.core.timerange import SECOND_NS
from forecasting.capacity.assumptions import HOUR_S
from forecasting.capacity.deadlines import WorkPlan
from forecasting.capacity.plan import BINDINGS, Basis, Binding, Plan, PoolPlan
from forecasting.capacity.what_if import Totals
from forecasting.capacity.worksheet import WorksheetRow
from forecasting.gate import words

BINDS: dict[Binding, Badge] = {
    "demand": Badge("●", "", "demand"),
    "queueing": Badge("◔", "", "room for queueing"),
    "cold_start": Badge("◐", "", "cold start"),
    "warm_floor": Badge("▁", "muted", "warm floor"),
    "gpu_quota": Badge("▲", "warn", "GPU quota"),
    "budget": Badge("▲", "warn", "budget"),
    "no_capacity": Badge("✕", "bad", "capacity not known"),
}
"""How an assumption that binds is shown. Only what keeps demand from being met warns."""


def pool_row(pool: PoolPlan) -> dict[str, Any]:
    """A pool over the whole plan. `binds`: how many hours each assumption binds, the most frequent first."""
    counts = np.bincount(pool.binding, minlength=len(BINDINGS))
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda code: -int(counts[code]))
    return {
        "plan": pool,
        "replicas_first": int(pool.replicas[0]) if len(pool.replicas) else 0,  # in the plan's first hour
        "replicas_least": int(pool.replicas.min(initial=10**9)) if len(pool.replicas) else 0,
        "replicas_most": int(pool.replicas.max(initial=0)),
        "gpu_hours": float(pool.gpu_hours.sum()),
        "cost_usd": float(pool.cost_usd.sum()),
        "priced": pool.usd_per_gpu_hour > 0,
        "short_hours": int((pool.shortfall_rps > 0).sum()),
        "worst_shortfall_rps": float(pool.shortfall_rps.max(initial=0.0)),
        "binds": [(BINDS[BINDINGS[code]], int(counts[code])) for code in order],
    }


def basis_words(basis: Basis) -> str:
    """Who forecast, how well, and out of how much: `profile week, skill 38 %, of 28 days`."""
    if not basis.forecasters:
        return "no forecast"
    history = "" if basis.history_s is None else f", of {PAGE.duration(basis.history_s)}"
    return f"{words(basis.forecaster)}, skill {PAGE.share(basis.skill)}{history}"


def known(pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Those of which it is known what a replica carries. The others keep what they have: that is no plan, and no total counts it."""
    return [pool for pool in pools if pool.capacity is not None]


def region_rows(pools: Sequence[PoolPlan]) -> list[dict[str, Any]]:
    """Totals by region, of pools whose capacity is known. `unknown`: further pools, whose capacity is not.

    The most replicas are those of the hour that has the most over all of its pools.
    """
    rows = []
    for region in sorted({pool.assumptions.region for pool in pools}):
        every = [pool for pool in pools if pool.assumptions.region == region]
        own = known(every)
        together = np.sum([pool.replicas for pool in own], axis=0)
        short = np.any([pool.shortfall_rps > 0 for pool in own], axis=0)
        rows.append(
            {
                "region": region,
                "pools": len(own),
                "replicas_most": int(together.max(initial=0)),
                "gpu_hours": float(sum(pool.gpu_hours.sum() for pool in own)),
                "cost_usd": float(sum(pool.cost_usd.sum() for pool in own)),
                "short_hours": int(short.sum()),
                "unknown": len(every) - len(own),
            }
        )
    return rows


def hour_rows(pools: Sequence[PoolPlan]) -> list[dict[str, Any]]:
    """Each hour of several pools; totals are of those whose capacity is known. `cells`: replicas and what binds, by pool."""
    if not pools:
        return []
    counted = known(pools)
    gpu_hours = [pool.gpu_hours for pool in counted]
    costs = [pool.cost_usd for pool in counted]
    return [
        {
            "start_s": pools[0].start_s + hour * HOUR_S,
            "replicas": sum(int(pool.replicas[hour]) for pool in counted),
            "gpu_hours": float(sum(each[hour] for each in gpu_hours)),
            "cost_usd": float(sum(each[hour] for each in costs)),
            "cells": [(int(pool.replicas[hour]), BINDS[pool.binding_at(hour)]) for pool in pools],
        }
        for hour in range(len(pools[0].replicas))
    ]


def day_rows(pools: Sequence[PoolPlan]) -> list[dict[str, Any]]:
    """Each UTC day's demand at its peak, the most GPUs of each type at a time, GPU-hours and cost, as text. Nothing that is not known
    counts as 0: where a pool's capacity or price is not known, figures are lower bounds (`≥`).
    """
    if not pools:
        return []

    def day_of(hour: int) -> str:
        return f"{datetime.fromtimestamp(pools[0].start_s + hour * HOUR_S, UTC):%a %Y-%m-%d}"

    days = groupby(range(len(pools[0].replicas)), day_of)
    return [_day_row(day, list(hours), pools) for day, hours in days]


def _day_row(day: str, hours: Sequence[int], pools: Sequence[PoolPlan]) -> dict[str, Any]:
    counted = known(pools)
    priced = [pool for pool in counted if pool.usd_per_gpu_hour > 0]
    least = "≥ " if len(counted) < len(pools) else ""
    cost_least = "≥ " if least or any(pool.gpus_per_replica for pool in counted if pool not in priced) else ""
    gpus = {
        gpu: int(np.sum([pool.gpu_hours[hours] for pool in counted if pool.gpu == gpu], axis=0).max())
        for gpu in sorted({pool.gpu for pool in counted if pool.gpus_per_replica})
    }
    used = PAGE.number(float(sum(pool.gpu_hours[hours].sum() for pool in counted)))
    spent = PAGE.usd(float(sum(pool.cost_usd[hours].sum() for pool in priced)))
    forecast = any(pool.has_demand for pool in pools)
    return {
        "day": day,
        "hours": len(hours),  # of the day's 24, how many the plan has
        "requests_per_s": float(np.sum([pool.requests_per_s[hours] for pool in pools], axis=0).max())
        if forecast
        else None,
        "gpus": least + " and ".join(f"{PAGE.count(most)} × {gpu}" for gpu, most in gpus.items())
        if gpus
        else ("none" if counted else "not known"),
        "gpu_hours": f"{least}{used}" if counted else "not known",
        "cost": f"{cost_least}{spent}" if priced else "no price" if counted else "not known",
        "short_hours": int(np.any([pool.shortfall_rps[hours] > 0 for pool in counted], axis=0).sum()) if counted else 0,
    }


def replica_lines(pools: Sequence[PoolPlan], most: int) -> list[Hours]:
    """Replicas for clients by hour of the `most` pools that use the most GPU-hours, in the plan's order, and the rest as one."""
    ranked = sorted(pools, key=lambda pool: -float(pool.gpu_hours.sum()))
    own = {id(pool) for pool in (ranked if len(ranked) <= most else ranked[: most - 1])}
    lines = [Hours(pool.pool, pool.start_s, pool.for_clients.tolist()) for pool in pools if id(pool) in own]
    rest = [pool for pool in pools if id(pool) not in own]
    if rest:
        lines.append(
            Hours(f"{len(rest)} others", rest[0].start_s, np.sum([pool.for_clients for pool in rest], axis=0).tolist())
        )
    return lines


def work_rows(plans: Sequence[WorkPlan], pools: Sequence[PoolPlan]) -> list[dict[str, Any]]:
    """Each pool's part of the work that can wait. `cost` is of the replicas more that are in the plan."""
    priced = {pool.pool: pool for pool in pools if pool.usd_per_gpu_hour > 0}
    return [
        {
            "plan": plan,
            "lines": PAGE.count(math.ceil(plan.lines)),
            "done_by": minute(int(plan.end_s) * SECOND_NS) if plan.end_s is not None else "",
            "late": PAGE.count(math.ceil(plan.late_lines)) if plan.late_lines else "",
            "cost": PAGE.usd(float(priced[plan.pool].lines_cost_usd.sum())) if plan.pool in priced else "no price",
        }
        for plan in plans
    ]


def lines_bars(plans: Sequence[WorkPlan], hours: int) -> tuple[Hours | None, Hours | None]:
    """By hour the replicas that are added for lines, and those that lines keep busy, of all pools; None where there are none."""
    known = [plan for plan in plans if plan.is_known]
    if not known:
        return None, None
    added = np.sum([plan.by_hour(plan.added) for plan in known], axis=0)[:hours]
    busy = np.sum([plan.by_hour(plan.busy) for plan in known], axis=0)[:hours]
    start_s = known[0].start_s
    more = Hours("more for lines", start_s, added.tolist()) if added.any() else None
    return more, Hours("busy with lines", start_s, busy.tolist())


def cost_line(pools: Sequence[PoolPlan]) -> Hours | None:
    """What all of them cost by hour; None where no price is known."""
    if not any(pool.usd_per_gpu_hour > 0 for pool in pools):
        return None
    return Hours("cost", pools[0].start_s, np.sum([pool.cost_usd for pool in pools], axis=0).tolist())


def all_replicas(plan: Plan, name: str) -> Hours:
    total = np.sum([pool.replicas for pool in plan.pools], axis=0) if plan.pools else np.zeros(plan.hours)
    return Hours(name, plan.start_s, total.tolist())


def known_cost(usd: float | None, of: Totals | WorksheetRow | None) -> str:
    """What is known of a cost: GPUs of a type without a price are not free."""
    if usd is None or of is None or not of.unpriced:
        return PAGE.usd(usd)
    return f"≥ {PAGE.usd(usd)}" if of.cost_usd else "no price"
