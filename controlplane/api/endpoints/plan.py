"""`planning/plan`, `planning/warm`, `planning/what-if` and `planning/worksheet`: capacity by hour, pool and region.

Hours are whole ones of UTC; `start_s` is an epoch.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema
from pydantic import BeforeValidator

from controlplane.api.formats import Name, QuarterName, ScenarioText, Summed
from controlplane.core.formatting import instant
from controlplane.core.spreadsheet import as_text
from controlplane.planning.inputs import plan_inputs
from controlplane.planning.open_work import whole_plan
from controlplane.planning.questions import compared, planned_quarter, pools_of, quarter_of, scenario_of, this_hour_s
from controlplane.telemetry.query.core.timerange import SECOND_NS
from forecasting.capacity.assumptions import PlanInputs
from forecasting.capacity.deadlines import WorkPlan
from forecasting.capacity.plan import Basis, Binding, Plan, PoolPlan
from forecasting.capacity.scenario import MAX_SCENARIOS, scenario_text
from forecasting.capacity.warm_plan import warm_plans
from forecasting.capacity.what_if import WhatIf
from forecasting.capacity.worksheet import worksheet

router = Router(tags=["planning"])
BASIS_COLUMNS = ("forecaster", "skill", "history_days")
PLAN_COLUMNS = (
    "hour", "pool", "model", "region", "gpu", "requests_per_s", "wanted_replicas", "replicas", "lines_replicas", "gpu_hours", "cost_usd",
    "shortfall_rps", "binding", "reason", *BASIS_COLUMNS,
)  # fmt: skip
SHEET_COLUMNS = (
    "quarter", "region", "month", "peak_rps", "input_tokens", "output_tokens", "batching_factor", "peak_replicas", "peak_gpus",
    "gpu_hours", "cost_usd", "lines_cost_usd", "covered_hours", *BASIS_COLUMNS,
)  # fmt: skip
MAX_PLAN_HOURS = 24 * 28
SourceName = Literal["ledger", "benchmark", "entered", "assumed"]


class LevelParameters(Schema):
    level: float | None = Field(
        None, ge=0.05, le=0.99, description="Quantile of the demand to plan for; by default that of the settings"
    )


class HourParameters(LevelParameters):
    hours: int = Field(24, ge=1, le=MAX_PLAN_HOURS, description="How many, from the present one on")


class PlanParameters(HourParameters):
    pool: list[Name] = Field([], max_length=50)
    region: list[Name] = Field([], max_length=50)


class WhatIfParameters(HourParameters):
    scenario: list[ScenarioText] = Field(
        [],
        max_length=MAX_SCENARIOS - 1,
        description="`peak=2;inputs=1.2;outputs=1.3;hit_rate=-10;gpu=NAME;lost=REGION;launch=MODEL:REQUESTS_PER_S:2026-12-03;level=0.95`, "
        "any of these; `lost` and `launch` may be repeated",
    )


class WorksheetParameters(LevelParameters):
    quarter: QuarterName | None = Field(None, description="Such as 2027-Q1; by default the next one")
    growth: float = Field(0, ge=-50, le=50, description="Percent a week, beyond the end of the forecasts")


class PlanHourOut(Schema):
    start_s: int
    requests_per_s: float | None = Field(
        description="The highest of the hour, at the level that is planned for; null where nothing says what is to come"
    )
    wanted_replicas: int = Field(description="Before quota and budget")
    replicas: int = Field(description="With `lines_replicas`")
    lines_replicas: int = Field(description="Of them those that work that can wait needs")
    gpu_hours: float
    cost_usd: float
    shortfall_rps: float = Field(description="Requests/s that the replicas do not carry within the objective")
    binding: Binding = Field(description="Which assumption decides the number")
    reason: str


class PlanAssumptionsOut(Schema):
    requests_per_s: float | None = Field(description="What a replica carries at its objective; null where not known")
    capacity_source: SourceName | None
    capacity_reason: str
    lower_bound: bool = Field(description="The objective was kept at every load that was seen: it may carry more")
    cold_start_p90_s: float
    cold_start_source: SourceName
    cold_starts: int = Field(description="How many were measured")
    warm_floor: int
    spare_replicas: int
    gpus_per_replica: int
    usd_per_gpu_hour: float = Field(description="0 where no price was entered")
    forecaster: str = Field(description="Who forecast its demand; empty without a forecast")
    skill: float | None = Field(
        description="Of the forecasts, by the size of their demands; null where none was compared"
    )
    history_days: float | None = Field(description="How long the least measured of these demands was measured")


class PoolPlanOut(Schema):
    pool: str
    model: str = Field(validation_alias="assumptions.model")
    variant: str = Field(validation_alias="assumptions.variant")
    region: str = Field(validation_alias="assumptions.region")
    gpu: str
    gpu_hours: Summed
    cost_usd: Summed
    assumptions: PlanAssumptionsOut
    notes: list[str]
    hours: list[PlanHourOut]

    @staticmethod
    def resolve_assumptions(pool: PoolPlan) -> dict[str, Any]:
        own, capacity = pool.assumptions, pool.capacity
        return {
            "requests_per_s": capacity.requests_per_s if capacity else None,
            "capacity_source": capacity.source if capacity else None,
            "capacity_reason": capacity.reason if capacity else "",
            "lower_bound": bool(capacity and capacity.lower_bound),
            "cold_start_p90_s": own.cold_start.p90_s,
            "cold_start_source": own.cold_start.source,
            "cold_starts": own.cold_start.starts,
            "warm_floor": own.warm_floor,
            "spare_replicas": own.spare_replicas,
            "gpus_per_replica": pool.gpus_per_replica,
            "usd_per_gpu_hour": pool.usd_per_gpu_hour,
            "forecaster": pool.basis.forecaster,
            "skill": pool.basis.skill,
            "history_days": pool.basis.history_days,
        }


class WorkOut(Schema):
    pool: str
    model: str
    lines: float = Field(description="Open lines of batches and jobs that are the pool's part")
    is_known: bool = Field(
        description="Whether it is known when they will be done; where not, the other fields say nothing"
    )
    end_s: float | None = Field(description="When the last is done; null where that is not known, or some are late")
    late_lines: float = Field(description="Those that would be done after their deadline")
    replica_hours: float = Field(description="Of replicas that are added for them")
    start_s: int
    lines_per_s: list[float] = Field(description="Done, by hour from `start_s`: the most of the hour")
    added: list[int] = Field(description="Replicas beside those for clients, by hour")
    reason: str

    @staticmethod
    def resolve_lines_per_s(plan: WorkPlan) -> list[float]:
        return plan.by_hour(plan.lines_per_s)

    @staticmethod
    def resolve_added(plan: WorkPlan) -> list[int]:
        return [int(count) for count in plan.by_hour(plan.added)]


class PlanOut(Schema):
    start_s: int
    hours: int
    level: float
    gpu_hours: float
    cost_usd: float
    lines_cost_usd: float = Field(description="Of it that of replicas for work that can wait")
    notes: list[str] = Field(description="What is missing or assumed in the plan as a whole")
    pools: list[PoolPlanOut]
    work: list[WorkOut] = Field(
        description="Work that can wait: how it is laid into what the demand leaves, over the next 26 hours"
    )


class WarmChangeOut(Schema):
    start_by_s: int
    warm_at_s: int
    replicas: int


class WarmPoolOut(Schema):
    pool: str
    horizon_s: int = Field(description="P90 of the cold start and a margin")
    reason: str
    changes: list[WarmChangeOut] = Field(description="The first state, then every change")


class WarmPlanOut(Schema):
    pools: list[WarmPoolOut]


class TotalsOut(Schema):
    peak_rps: float | None = Field(description="Of pools of whose demand something is known; null where there are none")
    peak_replicas: int
    peak_gpus: int
    gpu_hours: float
    cost_usd: float
    lines_cost_usd: float = Field(description="Of it that of replicas for work that can wait")
    shortfall_hours: int = Field(description="Hours of pools in which the objective would not be kept")
    most_shortfall_rps: float
    binding: Binding = Field(description="What binds most often")
    binding_share: float
    unforecast: int = Field(description="Pools of which nothing says what is to come")
    unpriced: int = Field(description="Pools whose GPUs have no price: their cost is not counted")


class ScenarioOut(Schema):
    scenario: Annotated[str, BeforeValidator(scenario_text)]
    name: str = Field(validation_alias="scenario.name")
    error: str = Field(description="Why there is no plan; else empty")
    totals: TotalsOut | None
    replicas: list[int] = Field(description="Of all pools, by hour")

    @staticmethod
    def resolve_replicas(compared: WhatIf) -> list[int]:
        pools = compared.plan.pools if compared.plan else ()
        return np.sum([pool.replicas for pool in pools], axis=0).tolist() if pools else []


class WhatIfOut(Schema):
    start_s: int
    hours: int
    scenarios: list[ScenarioOut] = Field(description="As forecast first, then each scenario in order")


class WorksheetRowOut(Schema):
    region: str = Field(description="Empty: all regions")
    month: str = Field(description="Such as 2027-01; empty: the quarter")
    peak_rps: float | None = Field(description="Of pools of whose demand something is known; null where there are none")
    input_tokens: float | None
    output_tokens: float | None
    batching_factor: float | None
    peak_replicas: int
    peak_gpus: int
    gpu_hours: float
    cost_usd: float
    lines_cost_usd: float = Field(description="Of it that of replicas for work that is open now and can wait")
    covered_hours: int
    unforecast: int = Field(description="Pools of which nothing says what is to come")
    unpriced: int = Field(description="Pools whose GPUs have no price: their cost is not counted")
    forecaster: str = Field(validation_alias="basis.forecaster")
    skill: float | None = Field(validation_alias="basis.skill")
    history_days: float | None = Field(validation_alias="basis.history_days")


class WorksheetOut(Schema):
    quarter: str
    level: float
    rows: list[WorksheetRowOut]
    notes: list[str]


@router.get("/plan", response=PlanOut, summary="Replicas, GPU-hours and cost by pool and hour, and what binds")
def plan(request: HttpRequest, parameters: Query[PlanParameters]) -> dict[str, Any]:
    made, work = whole_plan(_inputs(parameters))
    shown = pools_of(made, parameters.pool, parameters.region)
    names = {pool.pool for pool in shown}
    same = {name: getattr(made, name) for name in PlanOut.model_fields if name not in ("pools", "work")}
    return {**same, "pools": shown, "work": [each for each in work if each.pool in names]}


@router.get("/plan.csv", url_name="plan_csv", summary="The same as CSV, a row for each pool and hour")
def plan_csv(request: HttpRequest, parameters: Query[PlanParameters]) -> HttpResponse:
    pools = pools_of(whole_plan(_inputs(parameters)).plan, parameters.pool, parameters.region)
    rows = (
        {**asdict(hour), "hour": instant(hour.start_s * SECOND_NS), "pool": pool.pool, "gpu": pool.gpu}
        | {"model": pool.assumptions.model, "region": pool.assumptions.region, **_columns(pool.basis)}
        for pool in pools
        for hour in pool.hours()
    )
    return _csv("plan.csv", PLAN_COLUMNS, rows)


@router.get("/warm", response=WarmPlanOut, summary="What should be warm when, one cold start and a margin ahead")
def warm(request: HttpRequest, parameters: Query[HourParameters]) -> dict[str, Any]:
    return {"pools": warm_plans(_inputs(parameters))}


@router.get("/what-if", response=WhatIfOut, summary="Plans of several scenarios side by side")
def what_if(request: HttpRequest, parameters: Query[WhatIfParameters]) -> dict[str, Any]:
    scenarios = [scenario_of(text) for text in parameters.scenario]
    made = compared(_inputs(parameters), scenarios)
    return {
        "start_s": next((each.plan.start_s for each in made if each.plan), this_hour_s()),
        "hours": parameters.hours,
        "scenarios": made,
    }


@router.get("/worksheet", response=WorksheetOut, summary="A quarter by region and month")
def quarters_worksheet(request: HttpRequest, parameters: Query[WorksheetParameters]) -> dict[str, Any]:
    made = _quarter_plan(parameters)
    sheet = worksheet(made)
    quarter = quarter_of(parameters.quarter or "").name
    return {"quarter": quarter, "level": made.level, "rows": sheet.rows, "notes": sheet.notes}


@router.get("/worksheet.csv", url_name="worksheet_csv", summary="The same as CSV")
def worksheet_csv(request: HttpRequest, parameters: Query[WorksheetParameters]) -> HttpResponse:
    quarter = quarter_of(parameters.quarter or "").name
    rows = (
        {"quarter": quarter, **asdict(row), **_columns(row.basis)} for row in worksheet(_quarter_plan(parameters)).rows
    )
    return _csv(f"worksheet-{quarter}.csv", SHEET_COLUMNS, rows)


def _inputs(parameters: HourParameters) -> PlanInputs:
    return plan_inputs(this_hour_s(), parameters.hours, parameters.level)


def _quarter_plan(parameters: WorksheetParameters) -> Plan:
    return planned_quarter(quarter_of(parameters.quarter or ""), parameters.level, parameters.growth)


def _columns(basis: Basis) -> dict[str, Any]:
    return {name: getattr(basis, name) for name in BASIS_COLUMNS}


def _csv(name: str, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> HttpResponse:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: as_text(cell) for name, cell in row.items()} for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)
