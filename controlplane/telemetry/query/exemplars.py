"""Which measurements of a metric lead to traces, and where on its chart they belong."""

from collections.abc import Sequence
from typing import Literal

from controlplane.telemetry.core.metric_types import SeriesInfo
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.metric_question import Shown, Signal
from controlplane.telemetry.store import StoreInputError
from controlplane.telemetry.store.metrics import MAX_SERIES
from controlplane.telemetry.store.read.exemplars import ExemplarsFound

MOST = 60
_PARTS = ("_bucket", "_count", "_sum")
"""A histogram's series. Its exemplars are with its buckets, or the count where it has none, and belong to each of them."""
_COUNTED = (*_PARTS, "_total")


def found(signal: Signal) -> ExemplarsFound:
    """Those of the metric in its range, spread over it; of a series of a histogram, the histogram's."""
    store = answers.store()
    series: list[SeriesInfo] = []
    for metric in family(signal.metric):
        try:
            series += store.series(metric, signal.matchers)
        except StoreInputError:  # more than can be asked for: the chart says so of its own
            continue
    return store.exemplars_of(series[:MAX_SERIES], signal.range.window, MOST)


def family(metric: str) -> Sequence[str]:
    """The metrics whose exemplars tell something of this one."""
    base = measured(metric)
    return (metric,) if base == metric else tuple(dict.fromkeys((metric, base, f"{base}_bucket", f"{base}_count")))


def measured(metric: str) -> str:
    """What is measured: a histogram's name without the part that a series of it is."""
    part = next((part for part in _PARTS if metric.endswith(part)), "")
    return metric.removesuffix(part)


def placed(info: SeriesInfo, shown: Shown, *, unit_known: bool) -> Literal["same", "own", "none"]:
    """On which axis of the chart of `info` an exemplar's value may stand.

    A gauge's is one of its values. What counts (a counter, a histogram's series) shows how many or how fast, an exemplar what one of them
    measured: it needs an axis of its own, and a unit to say what that is; without one it is only listed.
    """
    counts = info.kind == "counter" or (info.kind != "gauge" and info.metric.endswith(_COUNTED))
    if not counts and shown == "value":
        return "same"
    return "own" if unit_known else "none"
