"""Forecasts and pools for tests of plans."""

from typing import Any

import numpy as np

from forecasting.capacity.assumptions import ColdStart, Demand, PlanInputs, PoolAssumptions, ReplicaCapacity, TokenMix
from forecasting.forecast import LEVELS, Forecast
from forecasting.series import F64

MONDAY_S = 1_795_392_000
"""2026-11-23 00:00 UTC."""
HOUR_S = 3600
STEP_S = 300


def forecast(values: F64 | list[float], step_s: int = STEP_S, start_s: int = MONDAY_S, spread: float = 0.0) -> Forecast:
    """P50 is `values`; the others lie around it by `spread` times their distance from 0.5."""
    median = np.asarray(values, dtype=np.float64)
    quantiles = {level: median * (1 + spread * (level - 0.5)) for level in LEVELS}
    return Forecast(start_s, step_s, quantiles, "last_value", None, "a test")


def steady(value: float, hours: int = 24, step_s: int = STEP_S) -> Forecast:
    return forecast(np.full(hours * HOUR_S // step_s, value), step_s)


def demand(requests: Forecast, **changes: Any) -> Demand:
    return Demand(**({"model": "chat", "tier": "standard", "region": "eu", "requests": requests} | changes))


def capacity(requests_per_s: float = 2.0, **changes: Any) -> ReplicaCapacity:
    return ReplicaCapacity(
        **({"requests_per_s": requests_per_s, "source": "ledger", "mix": TokenMix(500, 200)} | changes)
    )


def pool(name: str = "chat-eu", **changes: Any) -> PoolAssumptions:
    """Without spare replicas, a floor, or a cold start: a test adds what it is about."""
    defaults: dict[str, Any] = {
        "pool": name,
        "model": "chat",
        "variant": "chat-8b",
        "region": "eu",
        "gpu": "H100",
        "capacities": {"H100": capacity()},
        "cold_start": ColdStart(0.0, "ledger", 20),
        "warm_floor": 0,
        "spare_replicas": 0,
    }
    return PoolAssumptions(**(defaults | changes))


def inputs(demands: list[Demand], pools: list[PoolAssumptions] | None = None, **changes: Any) -> PlanInputs:
    defaults: dict[str, Any] = {"usd_per_gpu_hour": {"H100": 4.0, "A100": 2.0}, "margin_s": 0, "level": 0.5}
    return PlanInputs(**(defaults | {"demands": tuple(demands), "pools": tuple(pools or [pool()])} | changes))
