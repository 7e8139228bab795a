"""Finds the exemplars of a metric, and says on which axis of its chart they stand."""

from collections.abc import Sequence
from typing import Literal

from controlplane.telemetry.core.metric_types import SeriesInfo
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.metric_question import Shown, Signal
from controlplane.telemetry.store import StoreInputError
from controlplane.telemetry.store.read.metrics.exemplars import ExemplarsFound
from controlplane.telemetry.store.read.metrics.series import MAX_SERIES

MOST = 60
_PARTS = ("_bucket", "_count", "_sum")
"""Endings of a histogram's series. Its exemplars are stored with the buckets, or with the count, and belong to all of them."""
_COUNTED = (*_PARTS, "_total")


def exemplars_of(signal: Signal) -> ExemplarsFound:
    """The exemplars of the metric, spread over the question's range. A series of a histogram has those of the histogram."""
    store = answers.store()
    series: list[SeriesInfo] = []
    for metric in family(signal.metric):
        try:
            series += store.metrics.series(metric, signal.matchers)
        except StoreInputError:  # too many series: the chart says so itself
            continue
    return store.exemplars.of_series(series[:MAX_SERIES], signal.range.window, MOST)


def family(metric: str) -> Sequence[str]:
    """The metrics whose exemplars also belong to this one."""
    base = measured(metric)
    return (metric,) if base == metric else tuple(dict.fromkeys((metric, base, f"{base}_bucket", f"{base}_count")))


def measured(metric: str) -> str:
    """The name of the histogram that a series is a part of; any other metric's own name."""
    part = next((part for part in _PARTS if metric.endswith(part)), "")
    return metric.removesuffix(part)


def placed(info: SeriesInfo, shown: Shown, *, unit_known: bool) -> Literal["same", "own", "none"]:
    """On which axis of the chart of `info` an exemplar's value stands.

    An exemplar of a gauge is one of its values. The chart of a counter or of a histogram's series shows a number or a rate, and its
    exemplar shows a measurement: that needs an axis of its own, with a unit. Without a unit the exemplar is only listed.
    """
    counts = info.kind == "counter" or (info.kind != "gauge" and info.metric.endswith(_COUNTED))
    if not counts and shown == "value":
        return "same"
    return "own" if unit_known else "none"
