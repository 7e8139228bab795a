"""How long a what-if takes: seven scenarios beside the forecast, two weeks in steps of 5 minutes, 24 pools, 72 demands."""

import time
from collections.abc import Iterator

import numpy as np

from forecasting.capacity.assumptions import (
    ColdStart,
    Demand,
    GpuQuota,
    PlanInputs,
    PoolAssumptions,
    ReplicaCapacity,
    TokenMix,
)
from forecasting.capacity.months import quarter_hours
from forecasting.capacity.replicas import make_plan
from forecasting.capacity.scenario import parse_scenario
from forecasting.capacity.what_if import compare
from forecasting.capacity.worksheet import worksheet
from forecasting.forecast import LEVELS, Forecast
from tests.bench.figures import Figure, say

DAY_S = 86_400
STEP_S = 300
DAYS = 14
REGIONS = ("eu", "us", "ap")
MODELS = tuple(f"chat-{number}" for number in range(8))
TIERS = ("premium", "standard", "batch")
SCENARIOS = (
    "",
    "peak=2",
    "outputs=1.3",
    "hit_rate=-10",
    "gpu=a100",
    "lost=eu",
    "launch=chat-1:50:2026-12-03",
    "peak=2;outputs=1.3;lost=us",
)
ROUNDS = 40
WITHIN_S = 1.0
START_S = quarter_hours(2026, 4)[0] + 61 * DAY_S


def run() -> Iterator[Figure]:
    inputs = sample_inputs()
    scenarios = [parse_scenario(text) for text in SCENARIOS]
    times_s = []
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        compared = compare(inputs, scenarios)
        times_s.append(time.perf_counter() - began_s)
    if errors := [each.error for each in compared if each.error]:
        raise ValueError(errors[0])
    p95_s = float(np.quantile(times_s, 0.95))
    say(f"{len(scenarios)} scenarios of {len(inputs.pools)} pools: median {np.median(times_s):.3f} s")
    yield Figure("plan.what_if_p95_s", p95_s, "s", f"at most {WITHIN_S:g} s")
    start_s, hours = quarter_hours(2027, 1)
    began_s = time.perf_counter()
    worksheet(make_plan(sample_inputs(start_s, hours)))
    yield Figure("plan.worksheet_s", time.perf_counter() - began_s, "s")


def sample_inputs(start_s: int | None = None, hours: int | None = None) -> PlanInputs:
    """Demands with a daily shape, and pools of every model in every region."""
    demands = tuple(
        Demand(model, tier, region, *_forecasts(5.0 + number + place), hit_rate=0.2)
        for number, model in enumerate(MODELS)
        for place, region in enumerate(REGIONS)
        for tier in TIERS
    )
    pools = tuple(
        PoolAssumptions(
            f"{model}-{region}",
            model,
            f"{model}-8b",
            region,
            "h100",
            {"h100": _capacity(2.0 + number), "a100": _capacity(1.0 + number)},
            ColdStart(140.0, "ledger", 30),
        )
        for number, model in enumerate(MODELS)
        for region in REGIONS
    )
    quotas = (GpuQuota("eu", "h100", 200), GpuQuota("us", "h100", 300))
    prices = {"h100": 4.0, "a100": 2.0}
    return PlanInputs(demands, pools, prices, quotas, 2_000_000.0, start_s=start_s, hours=hours)


def _forecasts(mean_rps: float) -> tuple[Forecast, Forecast, Forecast]:
    at_s = np.arange(DAYS * DAY_S // STEP_S) * STEP_S
    shape = 1.1 + np.sin(at_s * 2 * np.pi / DAY_S)

    def scaled(factor: float) -> Forecast:
        values = {level: mean_rps * factor * shape * (0.6 + 0.8 * level) for level in LEVELS}
        return Forecast(START_S, STEP_S, values, "seasonal_day", 0.5, "a bench")

    return scaled(1.0), scaled(500.0), scaled(250.0)


def _capacity(requests_per_s: float) -> ReplicaCapacity:
    return ReplicaCapacity(requests_per_s, "ledger", TokenMix(500, 200), 0.4, 8.0, 16, 3, 2)
