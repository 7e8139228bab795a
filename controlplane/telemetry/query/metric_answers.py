"""Answers questions about metrics and the targets that they come from."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from controlplane.telemetry.core.metric_types import MetricInfo, Newest, SeriesInfo, TargetEvent, TargetState
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.metrics.core.steps import (
    StepValue,
    Times,
    Values,
    fitting,
    interval_ns,
    means,
    rates,
    rolled_means,
)
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.metric_question import Drawn, DrawnSeries, Shown, Signal, matcher_text
from controlplane.telemetry.query.core.timerange import SECOND_NS, STEPS_S, step_ns
from controlplane.telemetry.store import StoreError, StoreInputError
from controlplane.telemetry.store.read.metrics.rollups import SETTLED_S, STEP_S

T = TypeVar("T")
TargetStateNow = Literal["up", "down", "stale", "former"]
MISSED = 3
"""A target whose last scrape is more than this many intervals ago is stale."""
STALE_S = 60.0  # where the interval is not known
BAD_EXPRESSION = 427
"""ClickHouse's CANNOT_COMPILE_REGEXP."""


def metrics(text: str) -> list[MetricInfo]:
    return answers.store().metrics.metrics_found(text)


def newest(signal: Signal) -> list[Newest]:
    """The series of the metric that have a value in the range: the greatest first, those that have ended last."""
    rows = _refusals_named(signal, lambda: _newest(signal))
    return sorted(rows, key=lambda each: (each.ended, -each.value, sorted(each.info.labels.items())))


def drawn(signal: Signal, series: Sequence[SeriesInfo], least_step_ns: int = 0) -> Drawn:
    """These series of the metric in steps. Deltas have no value of their own: they are always drawn as rates."""
    counter = any(info.kind == "counter" for info in series)
    shown: Shown = "rate" if any(info.delta for info in series) else signal.shown or ("rate" if counter else "value")
    window, step = signal.range.window, step_ns(signal.range.window)
    if shown == "value" and (
        rolled := _refusals_named(signal, lambda: _rolled(signal, series, max(step, least_step_ns)))
    ):
        return rolled
    read = partial(answers.store().metrics.samples_of, signal.metric, series, window)
    # The first step begins before the window, and its growth one step before that.
    before_ns = max(2 * step, 120 * SECOND_NS)
    sampled = _refusals_named(signal, lambda: read(before_ns=before_ns))
    intervals = [each for samples in sampled if (each := interval_ns(samples.times)) is not None]
    step = fitting(max(step, least_step_ns), [seconds * SECOND_NS for seconds in STEPS_S], intervals)
    if 2 * step > before_ns:
        sampled = _refusals_named(signal, lambda: read(before_ns=2 * step))
    starts = list(range(window.from_ns - window.from_ns % step, window.to_ns, step))
    edges = np.array([*starts, starts[-1] + step], np.int64)
    cut = {
        samples.info.series: rates(samples.times, samples.values, samples.starts, edges, delta=samples.info.delta)
        if shown == "rate"
        else means(samples.times, samples.values, edges)
        for samples in sampled
    }
    nothing: list[StepValue | None] = [None] * len(starts)
    return Drawn(shown, step, starts, [DrawnSeries(info, cut.get(info.series, nothing)) for info in series])


def _newest(signal: Signal) -> list[Newest]:
    """Out of rollups where the metric has them and the range is long; the last hour is of samples."""
    store, window = answers.store(), signal.range.window
    cover = store.metrics.gauge_cover(signal.metric, window)
    if cover is None:
        return store.metrics.newest_of(signal.metric, _since(window), signal.matchers)
    rolled, rest = cover
    counted = store.submit_query(store.metrics.newest_gauges, signal.metric, rolled, rest, signal.matchers)
    sampled: dict[int, list[Newest]] = {}
    for part in rest:
        for each in store.metrics.newest_of(signal.metric, _from_first(part), signal.matchers):
            sampled.setdefault(each.info.series, []).append(each)
    newest = {each.info.series: each for each in counted.result()}
    for series, several in sampled.items():
        before = [newest[series]] if series in newest else []
        last = max([*before, *several], key=lambda each: each.time_ns)
        newest[series] = replace(last, samples=sum(each.samples for each in [*before, *several]))
    over = window.to_ns - rolled.to_ns >= SETTLED_S * SECOND_NS
    return [replace(each, ended=True) if over and each.time_ns <= rolled.to_ns else each for each in newest.values()]


def _rolled(signal: Signal, series: Sequence[SeriesInfo], step: int) -> Drawn | None:
    """None where samples are to be read."""
    store, window = answers.store(), signal.range.window
    step = next((choice * SECOND_NS for choice in STEPS_S if choice * SECOND_NS >= step and choice % STEP_S == 0), 0)
    first_ns = window.from_ns - window.from_ns % step if step else 0
    cover = store.metrics.gauge_cover(signal.metric, Window(first_ns, window.to_ns)) if step else None
    if cover is None:
        return None
    rolled, rest = cover
    counted = store.submit_query(
        store.metrics.rolled_gauges, [info.series for info in series], rolled, rest, step // SECOND_NS
    )
    sampled: dict[int, list[tuple[Times, Values]]] = {}
    for part in rest:
        for samples in store.metrics.samples_of(signal.metric, series, _from_first(part)):
            sampled.setdefault(samples.info.series, []).append((samples.times, samples.values))
    by_series = {each.series: each for each in counted.result()}
    starts = np.arange(first_ns, window.to_ns, step, dtype=np.int64)
    lines = [
        DrawnSeries(info, rolled_means(by_series.get(info.series), sampled.get(info.series, []), starts))
        for info in series
    ]
    return Drawn("value", step, starts.tolist(), lines, rolled=True)


def _from_first(window: Window) -> Window:
    """The same samples, as the store reads them: without its start, with its end."""
    return Window(window.from_ns - 1, window.to_ns - 1)


def targets(window: Window) -> list[TargetState]:
    return answers.store().scrapes.targets(window)


def events(window: Window) -> list[TargetEvent]:
    """The newest first."""
    return answers.store().scrapes.events(window)[::-1]


def target_states(targets: Sequence[TargetState], now_ns: int) -> list[TargetStateNow]:
    """The state of each target. A scrape that fails is one too, so a target that is not tried while others are is one no longer."""
    newest_s = (now_ns - max((target.time_ns for target in targets), default=0)) / 1e9
    states: list[TargetStateNow] = []
    for target in targets:
        stale_s = STALE_S if target.interval_ns is None else MISSED * target.interval_ns / 1e9 + 5
        if (now_ns - target.time_ns) / 1e9 > stale_s:
            states.append("former" if newest_s <= stale_s else "stale")
        else:
            states.append("up" if target.up else "down")
    return states


def _since(window: Window) -> Window:
    """The window and a minute before it, so that a series which is scraped rarely is not missing."""
    return Window(max(0, window.from_ns - 60 * SECOND_NS), window.to_ns)


def _refusals_named(signal: Signal, query: Callable[[], T]) -> T:
    """Run `query`. Raises BadQuestionError, which names the parameter, where the store refuses it."""
    try:
        return query()
    except StoreInputError as error:
        raise BadQuestionError(
            "metric", signal.metric, str(error), "Narrow the labels by match, or the range"
        ) from None
    except StoreError as error:
        if error.code != BAD_EXPRESSION:
            raise
        texts = [matcher_text(matcher) for matcher in signal.matchers if "~" in matcher.operator]
        raise BadQuestionError(
            "match", texts[0], "is not a regular expression that RE2 knows", "Leave out look-arounds"
        ) from None
