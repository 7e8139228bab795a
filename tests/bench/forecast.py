"""How good the forecasts that the gate lets through are, on recorded traffic, and how long a refresh takes.

The first half of a trace ("week 1") is history; in the second half the product's own `refresh` runs every so often and its own
`predict` after it, each with nothing but what came before. `TRACE=FILE` measures one trace, without it all of the shared folder, and
made-up ones of eight weeks.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from resource import RUSAGE_SELF, getrusage

import numpy as np

from forecasting.calendar import DAY_S, HOUR_S, WEEK_S, Calendar
from forecasting.candidates.history import History
from forecasting.candidates.seasonal import seasonal_week
from forecasting.capacity.demand_on_pools import Grid, on_grid
from forecasting.forecast import Forecast
from forecasting.refresh import HORIZONS_S, Choice, predict, refresh
from forecasting.series import F64, Series, SeriesError, resampled
from tests.bench.figures import Figure, say
from tests.bench.loads.demand_traces import DemandTrace, demands, files
from tests.bench.processes import BenchError

SCORED_HORIZONS_S = {60: "1m", 300: "5m", 600: "10m", 1800: "30m", 7200: "2h", DAY_S: "1d", WEEK_S: "1w"}
QUARTER_S = 13 * WEEK_S
REFRESHES = 28
"""Of the second half of a trace: every six hours of a week."""
LONG_S, MOMENTS, AFTER_S = 5 * WEEK_S, 52, 6 * HOUR_S
"""Of a trace of five weeks or more there are so many refreshes, evenly spread, with all forecasts of the six hours after each."""
HISTORY_S, MONTHS_S = 5 * WEEK_S, 56 * WEEK_S
"""How much of the past the product reads in its own steps, and by the hour (controlplane/planning/demand.py)."""
SERIES = 200
WORKERS = 2
MADE_UP = (101, 102, 103)
"""Seeds of made-up traces of eight weeks, on which nothing was chosen."""
STRONGLY_DAILY = 0.8
"""The autocorrelation at one day from which a trace counts as diurnal."""


@dataclass(slots=True)
class Record:
    """What came, what was forecast, and what last value and the same hour of the week before would have been."""

    actual: list[float] = field(default_factory=list)
    median: list[float] = field(default_factory=list)
    p90: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    week_before: list[float] = field(default_factory=list)
    chosen: Counter[str] = field(default_factory=Counter)
    """How many refreshes chose each candidate."""

    @property
    def wape_ratio(self) -> float:
        return self._ratio(self.last)

    @property
    def vs_seasonal(self) -> float:
        return self._ratio(self.week_before)

    @property
    def wape(self) -> float:
        actual = np.array(self.actual)
        return float(np.abs(actual - self.median).sum() / actual.sum())

    def _ratio(self, other: list[float]) -> float:
        actual, median, others = np.array(self.actual), np.array(self.median), np.array(other)
        both = ~np.isnan(others)
        return float(np.abs(actual - median)[both].sum() / max(float(np.abs(actual - others)[both].sum()), 1e-300))

    def coverage(self, bound: list[float]) -> float:
        return float((np.array(self.actual) <= bound).mean())


def run() -> Iterator[Figure]:
    ratios: dict[str, float] = {}
    coverages: dict[str, float] = {}
    weeks: dict[str, Record] = {}
    quarters: dict[str, float] = {}
    chosen: dict[str, Counter[str]] = {}
    for trace in _traces():
        name, began = trace.name, time.monotonic()
        records, quarter = walked(trace)
        for horizon_s, record in records.items():
            short = SCORED_HORIZONS_S[horizon_s]
            ratios[f"{name} at {short}"] = record.wape_ratio
            chosen.setdefault(short, Counter()).update(record.chosen)
            say(
                f"{name} at {short}: {len(record.actual)} forecasts, WAPE {record.wape:.3f}, chosen {_counted(record.chosen)}"
            )
            yield Figure(f"forecast.{name}.wape_ratio_{short}", record.wape_ratio, "ratio", "last value")
            yield Figure(f"forecast.{name}.p90_coverage_{short}", record.coverage(record.p90), "share")
            yield Figure(f"forecast.{name}.p99_coverage_{short}", record.coverage(record.p99), "share")
        if WEEK_S in records:
            weeks[name] = records[WEEK_S]
            yield Figure(f"forecast.{name}.week_wape_vs_seasonal", records[WEEK_S].vs_seasonal, "ratio", "week before")
        if quarter is not None:
            quarters[name] = quarter
        if records:
            covered = [record.coverage(record.p90) for record in records.values()]
            coverages[name] = float(np.mean(covered))
        if autocorrelation(trace.series, DAY_S) >= STRONGLY_DAILY and f"{name} at 30m" in ratios:
            yield Figure("forecast.wape_ratio_30m", ratios[f"{name} at 30m"], "ratio", f"last value, {name}")
        say(f"{name}: {time.monotonic() - began:.0f} s")
    if not ratios:
        raise BenchError(
            "no trace is long enough: give one of fourteen times the shortest horizon that is a multiple of its step"
        )
    yield from _of_all(ratios, coverages, weeks, quarters)
    for short, counts in chosen.items():
        say(f"all traces at {short}: chosen {_counted(counts)}")
    if not os.environ.get("TRACE"):
        yield from _refreshed()


def _of_all(
    ratios: Mapping[str, float],
    coverages: Mapping[str, float],
    weeks: Mapping[str, Record],
    quarters: Mapping[str, float],
) -> Iterator[Figure]:
    """The worst of each kind, with its trace."""
    worst = max(ratios, key=lambda label: ratios[label])
    yield Figure("forecast.worst_vs_last_value", ratios[worst], "ratio", f"last value, {worst}")
    furthest = max(coverages, key=lambda label: abs(coverages[label] - 0.9))
    yield Figure("forecast.p90_coverage", coverages[furthest], "share", f"all horizons, furthest from 0.9: {furthest}")
    if weeks:
        worst = max(weeks, key=lambda name: weeks[name].vs_seasonal)
        yield Figure("forecast.week_wape_vs_seasonal", weeks[worst].vs_seasonal, "ratio", f"week before, {worst}")
        covered = {name: record.coverage(record.p90) for name, record in weeks.items()}
        furthest = max(covered, key=lambda name: abs(covered[name] - 0.9))
        yield Figure("forecast.p90_coverage_week", covered[furthest], "share", f"furthest from 0.9: {furthest}")
    if quarters:
        worst = max(quarters, key=lambda name: quarters[name])
        yield Figure("forecast.quarter_wape_vs_seasonal", quarters[worst], "ratio", f"last week repeated, {worst}")


def _counted(chosen: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in chosen.most_common())


def _traces() -> Iterator[DemandTrace]:
    yield from demands(files())
    if not os.environ.get("TRACE"):
        yield from (DemandTrace(f"made_up_{seed}", synthetic(seed, days=56, step_s=600)) for seed in MADE_UP)


def walked(trace: DemandTrace) -> tuple[dict[int, Record], float | None]:
    """Forecasts over the second half of a trace, by horizon, at the horizon's lead; and of a quarter, where the trace has half a year
    after its first half, the errors of the plan's demand (docs/capacity.md) over those of the last week repeated.
    """
    series, calendar = trace.series, trace.calendar
    span_s, half = len(series) * series.step_s, len(series) // 2
    # A trace of five weeks has to show the week, if only three of them at its end.
    horizons = [
        h for h in SCORED_HORIZONS_S if h >= series.step_s and h % series.step_s == 0 and h <= _longest_s(span_s)
    ]
    records: dict[int, Record] = {horizon_s: Record() for horizon_s in horizons}
    choices: dict[int, Choice] = {}
    planned = repeated = 0.0
    for moment in _moments(series, half):
        past = series.until(moment.start)
        months = _months(past)
        incumbents = {horizon_s: choice.candidate for horizon_s, choice in choices.items()}
        recent = past.last(HISTORY_S // series.step_s)
        renewed = refresh(recent, horizons, calendar, incumbents, months=months)
        choices = {choice.horizon_s: choice for choice in renewed}
        for choice in renewed:
            records[choice.horizon_s].chosen[choice.candidate] += 1
        for origin in moment:
            recent = series.until(origin).last(HISTORY_S // series.step_s)
            for horizon_s, record in records.items():
                forecast = predict(recent, choices[horizon_s], calendar)
                _score(record, series, origin, forecast)
            if WEEK_S in horizons and origin == moment.start and span_s - origin * series.step_s >= QUARTER_S:
                errors = _quarter(series, origin, predict(recent, choices[WEEK_S], calendar))
                planned, repeated = planned + errors[0], repeated + errors[1]
    return {horizon_s: record for horizon_s, record in records.items() if record.actual}, (
        planned / repeated if repeated else None
    )


def _longest_s(span_s: int) -> float:
    return WEEK_S if span_s >= LONG_S else span_s / 14


def _moments(series: Series, half: int) -> Iterator[range]:
    """The origins of each refresh and those that follow it."""
    count = len(series) - half
    if len(series) * series.step_s < LONG_S:
        every = max(1, count // REFRESHES)
        yield from (range(at, min(at + every, len(series))) for at in range(half, len(series), every))
        return
    # Moments fall on all hours of the day.
    every = max(1, count // MOMENTS)
    every += every * series.step_s % DAY_S == 0
    for at in range(half, len(series), every):
        yield range(at, min(at + max(1, AFTER_S // series.step_s), len(series)))


def _months(past: Series) -> Series | None:
    """What the product has read by the hour."""
    if HOUR_S % past.step_s:
        return None
    try:
        return resampled(past, HOUR_S).last(MONTHS_S // HOUR_S)
    except SeriesError:
        return None


def _score(record: Record, series: Series, origin: int, forecast: Forecast) -> None:
    """Add the last step of the forecast, if it came."""
    start_s, step_s = forecast.start_s + (len(forecast) - 1) * forecast.step_s, forecast.step_s
    came, before = (_mean(series, start_s - back_s, step_s) for back_s in (0, WEEK_S))
    known = series.values[:origin][~np.isnan(series.values[:origin])]
    if np.isnan(came) or not len(known):
        return
    record.actual.append(came)
    record.median.append(float(forecast.median[-1]))
    record.p90.append(float(forecast.quantiles[0.9][-1]))
    record.p99.append(float(forecast.quantiles[0.99][-1]))
    record.last.append(float(known[-1]))
    record.week_before.append(before)


def _mean(series: Series, start_s: int, step_s: int) -> float:
    """The mean of what came; NaN where that is not known, or not over."""
    first, last = (start_s - series.start_s) // series.step_s, (start_s + step_s - series.start_s) // series.step_s
    if first < 0 or last > len(series):
        return float("nan")
    values = series.values[first:last]
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")


def _quarter(series: Series, origin: int, forecast: Forecast) -> tuple[float, float]:
    """Sums of absolute errors by the hour of the 13 weeks from `origin` on: of the plan, and of the last week repeated."""
    hours = QUARTER_S // HOUR_S
    start_s = -(-(series.start_s + origin * series.step_s) // HOUR_S) * HOUR_S
    came = np.array([_mean(series, start_s + hour * HOUR_S, HOUR_S) for hour in range(hours)])
    past = resampled(series.until(origin), HOUR_S)
    naive = seasonal_week(History(past, Calendar(), hours), np.array([len(past)]), np.arange(1, hours + 1))[0]
    plan = on_grid(forecast, 0.5, Grid(start_s, HOUR_S, hours))
    both = ~np.isnan(came) & ~np.isnan(naive)
    return float(np.abs(plan - came)[both].sum()), float(np.abs(naive - came)[both].sum())


def autocorrelation(series: Series, period_s: int) -> float:
    """The correlation of the series with itself a period before; 0 where it is too short."""
    lag = period_s // series.step_s
    if len(series) < 3 * lag:
        return 0.0
    now, before = series.values[lag:], series.values[:-lag]
    both = ~np.isnan(now) & ~np.isnan(before)
    return float(np.corrcoef(now[both], before[both])[0, 1])


def synthetic(seed: int, days: int = 28, step_s: int = 300) -> Series:
    """Weeks of made-up demand: days, weeks, trend, noise and incidents in other proportions for each seed."""
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
