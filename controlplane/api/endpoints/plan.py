"""`planning/plan`, `planning/warm`, `planning/what-if` and `planning/worksheet`: capacity by hour, pool and region."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from controlplane.api.schemas.plan import (
    HourParameters,
    PlanOut,
    PlanParameters,
    WarmPlanOut,
    WhatIfOut,
    WhatIfParameters,
    WorksheetOut,
    WorksheetParameters,
)
from controlplane.core.formatting import instant
from controlplane.planning.inputs import plan_inputs
from controlplane.planning.questions import compared, planned_quarter, pools_of, quarter_of, scenario_of, this_hour_s
from controlplane.telemetry.query.core.timerange import SECOND_NS
from forecasting.capacity.assumptions import PlanInputs
from forecasting.capacity.plan import Basis, Plan
from forecasting.capacity.replicas import make_plan
from forecasting.capacity.warm_plan import warm_plans
from forecasting.capacity.worksheet import worksheet

router = Router(tags=["planning"])
BASIS_COLUMNS = ("forecaster", "skill", "history_days")
PLAN_COLUMNS = (
    "hour", "pool", "model", "region", "gpu", "requests_per_s", "wanted_replicas", "replicas", "gpu_hours", "cost_usd",
    "shortfall_rps", "binding", "reason", *BASIS_COLUMNS,
)  # fmt: skip
SHEET_COLUMNS = (
    "quarter", "region", "month", "peak_rps", "input_tokens", "output_tokens", "batching_factor", "peak_replicas", "peak_gpus",
    "gpu_hours", "cost_usd", "covered_hours", *BASIS_COLUMNS,
)  # fmt: skip


@router.get("/plan", response=PlanOut, summary="Replicas, GPU-hours and cost by pool and hour, and what binds")
def plan(request: HttpRequest, parameters: Query[PlanParameters]) -> dict[str, Any]:
    made = make_plan(_inputs(parameters))
    return {
        "start_s": made.start_s,
        "hours": made.hours,
        "level": made.level,
        "gpu_hours": made.gpu_hours,
        "cost_usd": made.cost_usd,
        "notes": made.notes,
        "pools": pools_of(made, parameters.pool, parameters.region),
    }


@router.get("/plan.csv", url_name="plan_csv", summary="The same as CSV, a row for each pool and hour")
def plan_csv(request: HttpRequest, parameters: Query[PlanParameters]) -> HttpResponse:
    pools = pools_of(make_plan(_inputs(parameters)), parameters.pool, parameters.region)
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
    return {
        "quarter": quarter_of(parameters.quarter or "").name,
        "level": made.level,
        "rows": sheet.rows,
        "notes": sheet.notes,
    }


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
    writer.writerows(rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)
