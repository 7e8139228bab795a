"""Counts observations of stored histograms. A threshold can be judged only where a bucket ends."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from django.conf import settings

from controlplane.slo.core.count_plan import GRID_S, Block
from controlplane.slo.core.sli import Histogram
from controlplane.telemetry.core.metric_types import Matcher, SampleSeries
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.metrics.core.stale import stale
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store, StoreUnavailableError

LOOK_BACK_S = 300
"""How far before the window a counter's last value is looked for, s."""


def refusal(indicator: Histogram, edges: Sequence[float]) -> str:
    """Why the indicator cannot be judged from buckets with these upper bounds; empty where it can."""
    finite = sorted(edge for edge in edges if math.isfinite(edge))
    if not finite:
        labels = ", ".join(f"{name}={value!r}" for name, value in indicator.labels.items())
        return (
            f"metric={indicator.metric!r} has no buckets in the store{f' with {labels}' if labels else ''}: "
            "check its name (without _bucket) and labels, and that it is scraped"
        )
    if indicator.threshold in finite:
        return ""
    below = [edge for edge in finite if edge < indicator.threshold]
    above = [edge for edge in finite if edge > indicator.threshold]
    near = " or ".join(f"{edge:g}" for edge in (*below[-1:], *above[:1]))
    return (
        f"metric_threshold={indicator.threshold:g} is not a bound of {indicator.metric}'s buckets, so what lies between its "
        f"neighbours cannot be separated: use {near}"
    )


def known_edges(store: Store, indicator: Histogram) -> list[float]:
    """Upper bounds that the store has, ascending, with infinity. Raises StoreUnavailableError."""
    return sorted({_edge(info.labels) for info in store.metrics.series(_name(indicator), _matchers(indicator))})


def check_edges(indicator: Histogram) -> None:
    """Raises ValueError where the buckets in the store cannot judge the indicator. While the store is away nothing is refused."""
    if not settings.CONFIG.store_dsn:
        return
    with suppress(StoreUnavailableError):
        if reason := refusal(indicator, known_edges(answers.store(), indicator)):
            raise ValueError(reason)


def grown(store: Store, indicator: Histogram, from_s: int, to_s: int) -> Block:
    """Bad and total observations by step of GRID_S, each at the time of the sample that first shows it.

    Raises ValueError where the threshold is not a bound, StoreUnavailableError and StoreError.
    """
    stored = store.metrics.series(_name(indicator), _matchers(indicator))
    if reason := refusal(indicator, [_edge(info.labels) for info in stored]):
        raise ValueError(reason)
    texts = {info.labels["le"] for info in stored if _edge(info.labels) in (indicator.threshold, math.inf)}
    wanted = Matcher("le", "=~", "|".join(re.escape(text) for text in sorted(texts)))
    samples = store.metrics.samples(
        _name(indicator),
        Window(from_s * 10**9 - 1, to_s * 10**9 - 1),
        [*_matchers(indicator), wanted],
        before_ns=LOOK_BACK_S * 10**9,
    )
    good, total = np.zeros((to_s - from_s) // GRID_S), np.zeros((to_s - from_s) // GRID_S)
    for series in samples:
        _add(total if math.isinf(_edge(series.info.labels)) else good, series, from_s)
    counted = np.rint(total)
    return np.stack([np.clip(counted - np.rint(good), 0, None), counted]).astype(np.int32)


def _add(steps: np.ndarray, series: SampleSeries, from_s: int) -> None:
    """Add the growth of a counter to its steps. After a reset, and for a new counter, the growth is the whole value."""
    usable = ~stale(series.values) & ~np.isnan(series.values)
    times, values, starts = series.times[usable], series.values[usable], series.starts[usable]
    if not len(times):
        return
    growth = np.diff(values, prepend=values[:1])
    began = np.concatenate([[False], (growth[1:] < 0) | ((starts[1:] > starts[:-1]) & (starts[1:] >= times[:-1]))])
    growth = np.where(began, values, growth)
    if series.info.delta:
        growth = values
    elif starts[0] >= from_s * 10**9:
        growth[0] = values[0]
    step = (times // 10**9 - from_s) // GRID_S
    inside = (step >= 0) & (step < len(steps))
    np.add.at(steps, step[inside], growth[inside])


def _name(indicator: Histogram) -> str:
    return f"{indicator.metric}_bucket"


def _matchers(indicator: Histogram) -> list[Matcher]:
    return [Matcher(name, "=", value) for name, value in sorted(indicator.labels.items())]


def _edge(labels: Mapping[str, str]) -> float:
    try:
        return float(labels["le"])
    except (KeyError, ValueError):
        return math.nan
