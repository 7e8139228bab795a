"""Reads the series of a metric from a store, or from that of a running telemetry process."""

from contextlib import nullcontext

from controlplane.telemetry.core.metric_types import SampleSeries
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from tests.support.wait import eventually

from .process import Running

ALL = Window(0, 2**62)


def series(of: Running | Store, metric: str, **labels: str) -> list[SampleSeries]:
    """The metric's series with these labels."""
    with nullcontext(of) if isinstance(of, Store) else of.store() as store:
        found = store.metrics.samples(metric, ALL)
    return [one for one in found if labels.items() <= dict(one.info.labels).items()]


def stored(of: Running | Store, metric: str, *, at_least: int = 1, **labels: str) -> list[SampleSeries]:
    """The same, once they have so many samples."""
    found: list[SampleSeries] = []

    def look() -> bool:
        found[:] = series(of, metric, **labels)
        return sum(len(one.times) for one in found) >= at_least

    eventually(look, f"{metric} has {at_least} samples")
    return found
