"""Shapes of plans, what-ifs and the quarter's worksheet. Hours are whole ones of UTC; `start_s` is an epoch."""

from typing import Any, Literal

import numpy as np
from ninja import Field, Schema

from controlplane.api.formats import Name, QuarterName, ScenarioText
from forecasting.capacity.plan import Binding, PoolPlan
from forecasting.capacity.scenario import MAX_SCENARIOS, scenario_text
from forecasting.capacity.what_if import WhatIf

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
    requests_per_s: float = Field(description="The highest of the hour, at the level that is planned for")
    wanted_replicas: int = Field(description="Before quota and budget")
    replicas: int
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
    gpu_hours: float
    cost_usd: float
    assumptions: PlanAssumptionsOut
    notes: list[str]
    hours: list[PlanHourOut]

    @staticmethod
    def resolve_gpu_hours(pool: PoolPlan) -> float:
        return float(pool.gpu_hours.sum())

    @staticmethod
    def resolve_cost_usd(pool: PoolPlan) -> float:
        return float(pool.cost_usd.sum())

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


class PlanOut(Schema):
    start_s: int
    hours: int
    level: float
    gpu_hours: float
    cost_usd: float
    notes: list[str] = Field(description="What is missing or assumed in the plan as a whole")
    pools: list[PoolPlanOut]


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
    peak_rps: float
    peak_replicas: int
    peak_gpus: int
    gpu_hours: float
    cost_usd: float
    shortfall_hours: int = Field(description="Hours of pools in which the objective would not be kept")
    most_shortfall_rps: float
    binding: Binding = Field(description="What binds most often")
    binding_share: float


class ScenarioOut(Schema):
    scenario: str
    name: str = Field(validation_alias="scenario.name")
    error: str = Field(description="Why there is no plan; else empty")
    totals: TotalsOut | None
    replicas: list[int] = Field(description="Of all pools, by hour")

    @staticmethod
    def resolve_scenario(compared: WhatIf) -> str:
        return scenario_text(compared.scenario)

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
    peak_rps: float
    input_tokens: float
    output_tokens: float
    batching_factor: float | None
    peak_replicas: int
    peak_gpus: int
    gpu_hours: float
    cost_usd: float
    covered_hours: int
    forecaster: str = Field(validation_alias="basis.forecaster")
    skill: float | None = Field(validation_alias="basis.skill")
    history_days: float | None = Field(validation_alias="basis.history_days")


class WorksheetOut(Schema):
    quarter: str
    level: float
    rows: list[WorksheetRowOut]
    notes: list[str]
