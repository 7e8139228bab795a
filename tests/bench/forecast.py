"""How good the forecasts that the gate lets through are, on recorded traffic, and how long a refresh takes.

The first half of a trace ("week 1") is history; in the second half the product's own `refresh` runs every so often and its own
`predict` at every step, each with nothing but what came before. `TRACE=FILE` measures one trace, without it all of the shared folder.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from resource import RUSAGE_SELF, getrusage

import numpy as np

from forecasting.calendar import DAY_S, WEEK_S
from forecasting.refresh import HORIZONS_S, Choice, predict, refresh
from forecasting.series import F64, Series
from tests.bench.figures import Figure, say
from tests.bench.loads.demand_traces import demands, files
from tests.bench.processes import BenchError

SCORED_HORIZONS_S = {60: "1m", 300: "5m", 600: "10m", 1800: "30m", 7200: "2h", DAY_S: "1d"}
REFRESHES = 28
"""Of the second half of a trace: every six hours of a week."""
SERIES = 200
WORKERS = 2
STRONGLY_DAILY = 0.8
"""The autocorrelation at one day from which a trace counts as diurnal."""


@dataclass(slots=True)
class Record:
    """What came, what was forecast, and what last value would have been."""

    actual: list[float] = field(default_factory=list)
    median: list[float] = field(default_factory=list)
    p90: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    candidates: set[str] = field(default_factory=set)

    @property
    def wape_ratio(self) -> float:
        actual = np.array(self.actual)
        return float(np.abs(actual - self.median).sum() / max(np.abs(actual - self.last).sum(), 1e-300))

    @property
    def p90_coverage(self) -> float:
        return float((np.array(self.actual) <= self.p90).mean())


def run() -> Iterator[Figure]:
    ratios: dict[str, float] = {}
    coverages: dict[str, float] = {}
    for name, series in demands(files()):
        began = time.monotonic()
        records = walked(series)
        for horizon_s, record in records.items():
            label = f"{name} at {SCORED_HORIZONS_S[horizon_s]}"
            ratios[label] = record.wape_ratio
            say(f"{label}: {len(record.actual)} forecasts, used {', '.join(sorted(record.candidates))}")
            yield Figure(
                f"forecast.{name}.wape_ratio_{SCORED_HORIZONS_S[horizon_s]}", record.wape_ratio, "ratio", "last value"
            )
            yield Figure(f"forecast.{name}.p90_coverage_{SCORED_HORIZONS_S[horizon_s]}", record.p90_coverage, "share")
        if records:
            coverages[name] = float(np.mean([record.p90_coverage for record in records.values()]))
        if autocorrelation(series, DAY_S) >= STRONGLY_DAILY and f"{name} at 30m" in ratios:
            yield Figure("forecast.wape_ratio_30m", ratios[f"{name} at 30m"], "ratio", f"last value, {name}")
        say(f"{name}: {time.monotonic() - began:.0f} s")
    if not ratios:
        raise BenchError(
            "no trace is long enough: give one of fourteen times the shortest horizon that is a multiple of its step"
        )
    worst = max(ratios, key=lambda label: ratios[label])
    yield Figure("forecast.worst_vs_last_value", ratios[worst], "ratio", f"last value, {worst}")
    furthest = max(coverages, key=lambda label: abs(coverages[label] - 0.9))
    yield Figure("forecast.p90_coverage", coverages[furthest], "share", f"all horizons, furthest from 0.9: {furthest}")
    if not os.environ.get("TRACE"):
        yield from _refreshed()


def walked(series: Series) -> dict[int, Record]:
    """Forecasts over the second half of the series, by horizon, at the horizon's lead."""
    span_s = len(series) * series.step_s
    horizons = [h for h in SCORED_HORIZONS_S if h >= series.step_s and h % series.step_s == 0 and h <= span_s / 14]
    half = len(series) // 2
    every = max(1, (len(series) - half) // REFRESHES)
    records: dict[int, Record] = {horizon_s: Record() for horizon_s in horizons}
    choices: dict[int, Choice] = {}
    for origin in range(half, len(series)):
        past = series.until(origin)
        if (origin - half) % every == 0:
            incumbents = {horizon_s: choice.candidate for horizon_s, choice in choices.items()}
            choices = {choice.horizon_s: choice for choice in refresh(past, horizons, incumbents=incumbents)}
        known = past.values[~np.isnan(past.values)]
        for horizon_s, record in records.items():
            lead = horizon_s // series.step_s
            choice = choices[horizon_s]
            if choice.step_s != series.step_s or origin + lead > len(series):
                continue
            came = series.values[origin + lead - 1]
            if np.isnan(came) or not len(known):
                continue
            forecast = predict(past, choice)
            record.actual.append(float(came))
            record.median.append(float(forecast.median[lead - 1]))
            record.p90.append(float(forecast.quantiles[0.9][lead - 1]))
            record.last.append(float(known[-1]))
            record.candidates.add(choice.candidate)
    return {horizon_s: record for horizon_s, record in records.items() if record.actual}


def autocorrelation(series: Series, period_s: int) -> float:
    """The correlation of the series with itself a period before; 0 where it is too short."""
    lag = period_s // series.step_s
    if len(series) < 3 * lag:
        return 0.0
    now, before = series.values[lag:], series.values[:-lag]
    both = ~np.isnan(now) & ~np.isnan(before)
    return float(np.corrcoef(now[both], before[both])[0, 1])


def synthetic(seed: int, days: int = 28, step_s: int = 300) -> Series:
    """Four weeks of made-up demand: days, weeks, trend, noise and incidents in other proportions for each seed."""
    random = np.random.default_rng(seed)
    times = np.arange(days * DAY_S // step_s) * step_s
    shape: F64 = 1 + random.uniform(0, 0.9) * np.sin(2 * np.pi * times / DAY_S + random.uniform(0, 6))
    shape *= 1 - random.uniform(0, 0.6) * ((times % WEEK_S) >= 5 * DAY_S)
    shape *= 1 + random.uniform(-0.3, 1.0) * times / times[-1]
    shape *= np.exp(np.cumsum(random.normal(0, 0.01, len(times))) * random.choice([0.0, 1.0]))
    rate = 10 ** random.uniform(-1, 3) * np.maximum(shape, 0.0)
    values = random.poisson(rate * step_s) / step_s
    gap = int(random.integers(0, len(times) - 50))
    values[gap : gap + 40] = np.nan
    return Series(1_767_225_600, step_s, values)


def _refreshed() -> Iterator[Figure]:
    say(f"refreshing {SERIES} series on {WORKERS} processes")
    began = time.monotonic()
    with ProcessPoolExecutor(WORKERS) as pool:
        peaks = list(pool.map(_refresh_one, range(SERIES)))
    yield Figure(
        "forecast.refresh_200_series_s", time.monotonic() - began, "s", f"{WORKERS} processes, 4 weeks of 5 min"
    )
    yield Figure("forecast.refresh_peak_mb", max(peaks), "MB", "resident, of a process")


def _refresh_one(seed: int) -> float:
    """Refreshes a synthetic series; the most memory that this process has had, in MB."""
    series = synthetic(seed)
    for choice in refresh(series, HORIZONS_S):
        predict(series, choice)
    return getrusage(RUSAGE_SELF).ru_maxrss / 1024
