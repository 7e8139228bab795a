"""Questions about metrics and the targets they come from, read from URL parameters and written back to them, and their answers."""

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
from controlplane.telemetry.metrics.steps import Step, fitting, interval_ns, means, rates
from controlplane.telemetry.metrics.triton import METRICS, ServerAverages, by_server
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.metric_question import Drawn, Line, Shown, Signal, written
from controlplane.telemetry.query.core.timerange import SECOND_NS, STEPS_S, step_ns
from controlplane.telemetry.store import StoreError, StoreInputError

T = TypeVar("T")
MISSED = 3
"""A target that has not been tried for so many of its intervals is stale: nobody looks any more."""
STALE_S = 60.0  # of one whose interval is not known
BAD_EXPRESSION = 427
"""ClickHouse's CANNOT_COMPILE_REGEXP."""


def metrics(text: str) -> list[MetricInfo]:
    return answers.store().metrics_found(text)


def newest(signal: Signal) -> list[Newest]:
    """The series of the metric that have a value in the range: those with the greatest first, those that ended last."""
    found = _asked(
        signal, lambda: answers.store().newest_of(signal.metric, _since(signal.range.window), signal.matchers)
    )
    return sorted(found, key=lambda each: (each.ended, -each.value, sorted(each.info.labels.items())))


def drawn(signal: Signal, series: Sequence[SeriesInfo], least_step_ns: int = 0) -> Drawn:
    """These series of the metric in steps. Deltas, which have no value of their own, are rates whatever is asked."""
    counter = any(info.kind == "counter" for info in series)
    shown: Shown = "rate" if any(info.delta for info in series) else signal.shown or ("rate" if counter else "value")
    window, step = signal.range.window, step_ns(signal.range.window)
    found = _asked(
        signal, lambda: answers.store().samples_of(signal.metric, series, window, before_ns=max(step, 120 * SECOND_NS))
    )
    intervals = [each for one in found if (each := interval_ns(one.times)) is not None]
    step = fitting(max(step, least_step_ns), [seconds * SECOND_NS for seconds in STEPS_S], intervals)
    starts = list(range(window.from_ns - window.from_ns % step, window.to_ns, step))
    edges = np.array([*starts, starts[-1] + step], np.int64)
    cut = {
        one.info.series: rates(one.times, one.values, one.starts, edges, delta=one.info.delta)
        if shown == "rate"
        else means(one.times, one.values, edges)
        for one in found
    }
    nothing: list[Step | None] = [None] * len(starts)
    return Drawn(shown, step, starts, [Line(info, cut.get(info.series, nothing)) for info in series])


def targets(window: Window) -> list[TargetState]:
    return answers.store().targets(window)


def events(window: Window) -> list[TargetEvent]:
    """The newest first."""
    return answers.store().target_events(window)[::-1]


def target_state(target: TargetState, age_s: float) -> Literal["up", "down", "stale"]:
    """What a target is now, tried last `age_s` ago: one that nobody has tried for a while is neither up nor down."""
    patience_s = STALE_S if target.interval_ns is None else MISSED * target.interval_ns / 1e9 + 5
    if age_s > patience_s:
        return "stale"
    return "up" if target.up else "down"


def server_averages(window: Window) -> list[ServerAverages]:
    """Of Tritons whose metrics came in: mean queue and compute per request, by server and model."""
    return by_server(answers.store().counter_growth(METRICS, window))


def _since(window: Window) -> Window:
    """A minute more: what is scraped more seldom than the range is long shall not be missing."""
    return Window(max(0, window.from_ns - 60 * SECOND_NS), window.to_ns)


def _asked(signal: Signal, ask: Callable[[], T]) -> T:
    """What the store refuses of the question, in the question's terms. Raises BadQuestionError."""
    try:
        return ask()
    except StoreInputError as error:
        raise BadQuestionError(
            "metric", signal.metric, str(error), "Narrow the labels by match, or the range"
        ) from None
    except StoreError as error:
        if error.code != BAD_EXPRESSION:
            raise
        texts = [written(matcher) for matcher in signal.matchers if "~" in matcher.operator]
        raise BadQuestionError(
            "match", texts[0], "is not a regular expression that RE2 knows", "Leave out look-arounds"
        ) from None
