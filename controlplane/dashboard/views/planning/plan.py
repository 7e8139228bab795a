"""The plan by hour: replicas, GPU-hours and cost of each pool and region, what binds, and what must start when."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.figures.plan import plan_figure
from controlplane.dashboard.core.plan_tables import (
    BINDS,
    basis_words,
    cost_line,
    day_rows,
    hour_rows,
    known,
    lines_bars,
    pool_row,
    region_rows,
    replica_lines,
    work_rows,
)
from controlplane.dashboard.core.zone import minute
from controlplane.dashboard.history import synthetic
from controlplane.dashboard.views.common import facet, page
from controlplane.dashboard.views.planning.frame import choices, framed, level_of, levels, missing, replaced
from controlplane.fleet.inventory import pool_entries
from controlplane.planning.inputs import plan_inputs
from controlplane.planning.open_work import whole_plan
from controlplane.planning.questions import pools_of, this_hour_s
from controlplane.telemetry.query.core.parameters import choice
from controlplane.telemetry.query.core.timerange import SECOND_NS
from forecasting.capacity.assumptions import HOUR_S, PlanInputs
from forecasting.capacity.deadlines import WorkPlan
from forecasting.capacity.plan import Plan, PoolPlan
from forecasting.capacity.warm_plan import WarmPlan, warm_plans

HOURS = {"24": "24 h", "72": "3 days", "168": "7 days", "336": "14 days"}
MAX_BARS = 16
MAX_WARM = 100
SOURCES = {"ledger": "measured in traffic", "benchmark": "a benchmark run", "entered": "entered", "assumed": "assumed"}


@dataclass(frozen=True, slots=True)
class Planned:
    """What the URL chooses of a plan. `levels` are the quantiles that it offers."""

    hours: int
    levels: Mapping[str, str]
    level: str
    pools: tuple[str, ...]
    regions: tuple[str, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [
            ("hours", str(self.hours)),
            ("q", self.level),
            *(("region", region) for region in self.regions),
            *(("pool", pool) for pool in self.pools),
        ]


def read(parameters: Mapping[str, Sequence[str]]) -> Planned:
    """Raises BadQuestionError."""
    return Planned(
        int(choice(parameters, "hours", tuple(HOURS), "24")),
        *levels(parameters),
        tuple(filter(None, parameters.get("pool", ()))),
        tuple(filter(None, parameters.get("region", ()))),
    )


@require_safe
@page
def plan(request: HttpRequest) -> HttpResponse:
    """`?hours=`, `q`, `region`, `pool`: with a single pool, each of its hours says why."""
    planned = read(dict(request.GET.lists()))
    inputs = plan_inputs(this_hour_s(), planned.hours, level_of(planned.level))
    made, work = whole_plan(inputs)
    shown = pools_of(made, planned.pools, planned.regions)
    context: dict[str, Any] = {
        **filter_context(planned, made),
        "pools": [],
        "notes": made.notes,
        "missing": missing(made),
        "renew": True,
        "synthetic": synthetic(made.start_s - 28 * 24 * HOUR_S, made.start_s),
    }
    if shown:
        running = {pool.name: sum(replica.enabled for replica in pool.replicas) for pool in pool_entries()}
        names = {pool.pool for pool in shown}
        work = tuple(each for each in work if each.pool in names)
        context |= plan_context(planned, made, shown, running, work)
        context |= warm_context(inputs, names, running)
        context["edit_href"] = reverse("admin:planning_poolcapacity_changelist")
    return framed(request, "Plan by hour", "_plan.html", context)


def filter_context(planned: Planned, made: Plan) -> dict[str, Any]:
    pools = [pool.pool for pool in made.pools]
    regions = sorted({pool.assumptions.region for pool in made.pools})
    return {
        "lengths": choices(planned.pairs, "hours", HOURS, str(planned.hours)),
        "levels": choices(planned.pairs, "q", planned.levels, planned.level),
        "facets": [
            facet("region", "region", regions, planned.regions, lambda value: without(planned, "region", value)),
            facet("pool", "pool", pools, planned.pools, lambda value: without(planned, "pool", value)),
        ],
        "kept": planned.pairs[:2],
    }


def without(planned: Planned, name: str, value: str) -> str:
    return replaced([pair for pair in planned.pairs if pair != (name, value)])


def plan_context(
    planned: Planned, made: Plan, shown: Sequence[PoolPlan], running: Mapping[str, int], work: Sequence[WorkPlan]
) -> dict[str, Any]:
    rows = [pool_row(pool) for pool in shown]
    counted = known(shown)
    of_known = [row for row in rows if row["plan"].capacity is not None]
    regions = region_rows(shown)
    priced = any(row["priced"] for row in of_known)
    cost = cost_line(counted)
    more, busy = lines_bars(work, made.hours)
    bars = replica_lines(counted, MAX_BARS) + ([more] if more else [])
    hourly = hour_rows(shown)
    unforecast = [pool.pool for pool in counted if not pool.has_demand]
    short_hours = sum(any(pool.shortfall_rps[hour] > 0 for pool in counted) for hour in range(made.hours))
    return {
        "pools": [
            {
                **row,
                "running": running.get(pool.pool),
                "query": replaced(planned.pairs, pool=pool.pool),
                "forecast": basis_words(pool.basis),
                "capacity_from": capacity_words(pool),
                "cold_start_from": cold_start_words(pool),
                "notes": " ".join(pool.notes),
                "batch": None if pool.batching_factor is None else float(pool.batching_factor.max(initial=0.0)),
            }
            for row, pool in zip(rows, shown, strict=True)
        ],
        "regions": regions,
        "work": work_rows(work, shown),
        "priced": priced,
        "hours": made.hours,
        "length": HOURS[str(made.hours)],
        "start": minute(made.start_s * SECOND_NS),
        "percent": f"{made.level * 100:g}",
        "most": max((row["replicas"] for row in hourly), default=0),
        "planned": len(counted),
        "unknown": [pool.pool for pool in shown if pool.capacity is None],
        "unforecast": unforecast,
        "has_demand": len(unforecast) < len(counted),
        "gpu_hours": sum(row["gpu_hours"] for row in of_known),
        "cost_usd": sum(row["cost_usd"] for row in of_known) if priced else None,
        "unpriced": [row["plan"].pool for row in of_known if not row["priced"] and row["plan"].gpus_per_replica],
        "short_hours": short_hours,
        "short_words": short_words(counted),
        "day_rows": day_rows(shown),
        "hour_rows": hourly,
        "looks": BINDS.values(),
        "detail": detail(shown[0]) if len(shown) == 1 else None,
        "figure": plan_figure(bars, cost, replaced(planned.pairs), busy),
        "csv": f"{reverse('api:plan_csv')}?"
        + replaced(
            [pair for pair in planned.pairs if pair[0] not in ("hours", "q")],
            hours=str(planned.hours),
            level=f"{made.level:g}",
        ),
    }


def short_words(shown: Sequence[PoolPlan]) -> str:
    """Which limit is too low, most often the one of the most hours."""
    counts: dict[str, int] = {}
    for pool in shown:
        for hour in range(len(pool.replicas)):
            if pool.shortfall_rps[hour] > 0:
                words = BINDS[pool.binding_at(hour)].words
                counts[words] = counts.get(words, 0) + 1
    return ", ".join(sorted(counts, key=lambda words: -counts[words]))


def detail(pool: PoolPlan) -> dict[str, Any]:
    """One pool, hour by hour, each with its reason."""
    return {
        "pool": pool.pool,
        "priced": pool.usd_per_gpu_hour > 0,
        "rows": [{"hour": hour, "look": BINDS[hour.binding]} for hour in pool.hours()],
    }


def capacity_words(pool: PoolPlan) -> str:
    if pool.capacity is None:
        return ""
    words = SOURCES[pool.capacity.source]
    return f"{words}: {pool.capacity.reason}" if pool.capacity.reason else words


def cold_start_words(pool: PoolPlan) -> str:
    cold = pool.assumptions.cold_start
    return f"{PAGE.count(cold.starts)} starts measured" if cold.starts else SOURCES[cold.source]


def warm_context(inputs: PlanInputs, pools: set[str], running: Mapping[str, int]) -> dict[str, Any]:
    """Changes of what must be warm, in order of when to start."""
    rows = sorted(
        (
            row
            for each in warm_plans(inputs)
            if each.pool in pools
            for row in warm_rows(each, time.time(), running.get(each.pool, 0))
        ),
        key=lambda row: row["at"],
    )
    return {
        "warm": rows[:MAX_WARM],
        "warm_left_out": max(0, len(rows) - MAX_WARM),
        "margin": PAGE.duration(inputs.margin_s),
    }


def warm_rows(warm: WarmPlan, now_s: float, running: int) -> list[dict[str, Any]]:
    """What should have started before `now_s` starts at once, unless it runs: no plan is for the past."""
    rows: list[dict[str, Any]] = []
    before = 0
    for change in warm.changes():
        more = change.replicas - before
        rows.append(
            {
                "at": change.start_by_s,
                "start_at": _start_at(change.start_by_s, now_s, change.replicas <= running) if more > 0 else "–",
                "warm_by": minute(change.warm_at_s * SECOND_NS),
                "pool": warm.pool,
                "replicas": change.replicas,
                "change": f"{more:+d}" if rows else "at the start",
            }
        )
        before = change.replicas
    return rows


def _start_at(start_by_s: float, now_s: float, runs: bool) -> str:
    if start_by_s > now_s:
        return minute(int(start_by_s) * SECOND_NS)
    return "–: they run" if runs else "now: it is late"
