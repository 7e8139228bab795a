"""What a running telemetry process has stored of a metric."""

from controlplane.telemetry.core.metric_types import SampleSeries
from controlplane.telemetry.core.query_types import Window

from .process import Running, eventually

ALL = Window(0, 2**62)


def series(telemetry: Running, metric: str, **labels: str) -> list[SampleSeries]:
    """The metric's series with these labels, as they are now."""
    with telemetry.store() as store:
        found = store.samples(metric, ALL)
    return [one for one in found if labels.items() <= dict(one.info.labels).items()]


def stored(telemetry: Running, metric: str, *, at_least: int = 1, **labels: str) -> list[SampleSeries]:
    """The same, once there are so many samples of them."""
    found: list[SampleSeries] = []

    def look() -> bool:
        found[:] = series(telemetry, metric, **labels)
        return sum(len(one.times) for one in found) >= at_least

    eventually(look, f"{metric} has {at_least} samples")
    return found
