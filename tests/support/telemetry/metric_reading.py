"""Reads the series of a metric from a running telemetry process's store."""

from controlplane.telemetry.core.metric_types import SampleSeries
from controlplane.telemetry.core.query_types import Window
from tests.support.wait import eventually

from .process import Running

ALL = Window(0, 2**62)


def series(telemetry: Running, metric: str, **labels: str) -> list[SampleSeries]:
    """The metric's series with these labels."""
    with telemetry.store() as store:
        found = store.metrics.samples(metric, ALL)
    return [one for one in found if labels.items() <= dict(one.info.labels).items()]


def stored(telemetry: Running, metric: str, *, at_least: int = 1, **labels: str) -> list[SampleSeries]:
    """The same, once they have so many samples."""
    found: list[SampleSeries] = []

    def look() -> bool:
        found[:] = series(telemetry, metric, **labels)
        return sum(len(one.times) for one in found) >= at_least

    eventually(look, f"{metric} has {at_least} samples")
    return found
