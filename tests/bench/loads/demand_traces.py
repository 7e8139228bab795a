"""Demand as series, from recorded traffic: files of rates by window, and files of requests (data sets' formats: docs/forecasts.md)."""

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecasting.calendar import DAY_S, Calendar, PlannedEvent
from forecasting.series import Series
from tests.bench.processes import BenchError

FOLDER = Path(os.environ.get("WEIR_TRACES", "../shared/traces"))
START_S = 1_767_225_600  # Traces have no date: Thursday, 1 January 2026
REQUEST_STEPS_S = (10, 60, 300)
MIN_STEPS = 300


def files() -> list[Path]:
    """The file that TRACE names, or all of the shared folder. Raises BenchError where there is none."""
    paths = [Path(named)] if (named := os.environ.get("TRACE")) else sorted(FOLDER.glob("*.csv.gz"))
    if not paths or not all(path.is_file() for path in paths):
        raise BenchError(f"no trace at {named or FOLDER}: give TRACE=FILE, a .csv or .csv.gz of rates or of requests")
    return paths


@dataclass(frozen=True, slots=True, eq=False)
class DemandTrace:
    """`calendar` has the days on which the trace says that there was a holiday, as events whose effect is to be learnt."""

    name: str
    series: Series
    calendar: Calendar = Calendar()  # noqa: RUF009  (immutable)


def demands(paths: list[Path]) -> Iterator[DemandTrace]:
    """Requests per second of each file that has some, with its name. Files of other things are left out."""
    for path in paths:
        rows = rows_of(path)
        columns = set(rows[0]) if rows else set()
        name = path.name.split(".")[0]
        if {"window_start_s", "rate_rps"} <= columns:
            yield DemandTrace(name, _of_windows(rows), _holidays(rows))
        elif "arrival_s" in columns:
            yield DemandTrace(name, _of_requests(rows))


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a .csv or .csv.gz, by column."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(text.splitlines()))


def _of_windows(rows: list[dict[str, str]]) -> Series:
    """Windows that are missing or marked as `gap` are gaps. They may be in any order."""
    rows = sorted(rows, key=lambda row: float(row["window_start_s"]))
    if len(rows) < 2:
        raise BenchError(f"the trace has {len(rows)} windows: give one of two or more, so that their length is known")
    starts = np.array([int(float(row["window_start_s"])) for row in rows])
    step_s = int(np.diff(starts).min())
    values = np.full((starts[-1] - starts[0]) // step_s + 1, np.nan)
    rates = [float(row["rate_rps"] or "nan") if row.get("gap", "0") in ("", "0") else np.nan for row in rows]
    values[(starts - starts[0]) // step_s] = rates
    return Series((START_S + starts[0]) // step_s * step_s, step_s, values)


def _holidays(rows: list[dict[str, str]]) -> Calendar:
    starts = {int(float(row["window_start_s"])) // DAY_S for row in rows if row.get("holiday", "0") not in ("", "0")}
    return Calendar(
        events=tuple(
            PlannedEvent("holiday", START_S + day * DAY_S, START_S + (day + 1) * DAY_S) for day in sorted(starts)
        )
    )


def _of_requests(rows: list[dict[str, str]]) -> Series:
    """The longest of a few steps that leaves enough of them; the last, cut step is left out."""
    arrivals_s = np.sort(np.array([float(row["arrival_s"]) for row in rows]))
    arrivals_s -= arrivals_s[0]
    step_s = max((step for step in REQUEST_STEPS_S if arrivals_s[-1] >= step * MIN_STEPS), default=REQUEST_STEPS_S[0])
    counts = np.bincount((arrivals_s // step_s).astype(np.int64))[:-1]
    return Series(START_S, step_s, counts / step_s)
