"""Answers questions about metrics and the targets that they come from."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import numpy as np

from controlplane.telemetry.core.metric_types import (
    MetricInfo,
    Newest,
    SeriesInfo,
    TargetEvent,
    TargetState,
)
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.metrics.core.steps import Step, fitting, interval_ns, means, rates
from controlplane.telemetry.metrics.core.triton import METRICS, ServerAverages, by_server
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.metric_question import Drawn, Line, Shown, Signal, matcher_text
from controlplane.telemetry.query.core.timerange import SECOND_NS, STEPS_S, step_ns
from controlplane.telemetry.store import StoreError, StoreInputError

T = TypeVar("T")
MISSED = 3
"""A target whose last scrape is more than this many intervals ago is stale."""
STALE_S = 60.0  # where the interval is not known
BAD_EXPRESSION = 427
"""ClickHouse's CANNOT_COMPILE_REGEXP."""


def metrics(text: str) -> list[MetricInfo]:
    return answers.store().metrics_found(text)


def newest(signal: Signal) -> list[Newest]:
    """The series of the metric that have a value in the range: the greatest first, those that have ended last."""
    rows = _refusals_named(
        signal, lambda: answers.store().newest_of(signal.metric, _since(signal.range.window), signal.matchers)
    )
    return sorted(rows, key=lambda each: (each.ended, -each.value, sorted(each.info.labels.items())))


def drawn(signal: Signal, series: Sequence[SeriesInfo], least_step_ns: int = 0) -> Drawn:
    """These series of the metric in steps. Deltas have no value of their own: they are always drawn as rates."""
    counter = any(info.kind == "counter" for info in series)
    shown: Shown = "rate" if any(info.delta for info in series) else signal.shown or ("rate" if counter else "value")
    window, step = signal.range.window, step_ns(signal.range.window)
    sampled = _refusals_named(
        signal, lambda: answers.store().samples_of(signal.metric, series, window, before_ns=max(step, 120 * SECOND_NS))
    )
    intervals = [each for samples in sampled if (each := interval_ns(samples.times)) is not None]
    step = fitting(max(step, least_step_ns), [seconds * SECOND_NS for seconds in STEPS_S], intervals)
    starts = list(range(window.from_ns - window.from_ns % step, window.to_ns, step))
    edges = np.array([*starts, starts[-1] + step], np.int64)
    cut = {
        samples.info.series: rates(samples.times, samples.values, samples.starts, edges, delta=samples.info.delta)
        if shown == "rate"
        else means(samples.times, samples.values, edges)
        for samples in sampled
    }
    nothing: list[Step | None] = [None] * len(starts)
    return Drawn(shown, step, starts, [Line(info, cut.get(info.series, nothing)) for info in series])


def targets(window: Window) -> list[TargetState]:
    return answers.store().targets(window)


def events(window: Window) -> list[TargetEvent]:
    """The newest first."""
    return answers.store().target_events(window)[::-1]


def target_state(target: TargetState, age_s: float) -> Literal["up", "down", "stale"]:
    """The state of a target whose last scrape was `age_s` seconds ago."""
    stale_s = STALE_S if target.interval_ns is None else MISSED * target.interval_ns / 1e9 + 5
    if age_s > stale_s:
        return "stale"
    return "up" if target.up else "down"


def server_averages(window: Window) -> list[ServerAverages]:
    """Mean queue and compute time per request, by server and model, of the Tritons that sent metrics."""
    return by_server(answers.store().counter_growth(METRICS, window))


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
