"""OTLP metrics sent to a running telemetry process, and read back from its store."""

import json
from pathlib import Path

from controlplane.telemetry.store.metrics import SampleSeries
from controlplane.telemetry.store.types import Window

from ..running import Running, eventually

ALL = Window(0, 2**62)
CUMULATIVE, DELTA = 2, 1


def stored(telemetry: Running, metric: str, **labels: str) -> list[SampleSeries]:
    """The metric's series with these labels, once there are any."""
    found: list[SampleSeries] = []

    def look() -> bool:
        with telemetry.store() as store:
            found[:] = [one for one in store.samples(metric, ALL) if labels.items() <= dict(one.info.labels).items()]
        return bool(found)

    eventually(look, f"{metric} has samples")
    return found


def test_the_published_example_is_stored_whole(telemetry: Running, shared_dir: Path) -> None:
    body = (shared_dir / "fixtures" / "otlp" / "metrics.json").read_bytes()
    code, answer, _ = telemetry.post(body, "metrics", Content_Type="application/json")
    assert (code, json.loads(answer)) == (200, {})
    [counter] = stored(telemetry, "my.counter")
    assert (counter.info.kind, counter.info.delta, counter.info.unit) == ("counter", True, "1")
    assert counter.info.labels == {
        "my.counter.attr": "some value", "service.name": "my.service", "otel.scope.name": "my.library"
    }  # fmt: skip
    assert list(counter.times) == [1544712660300000000] and list(counter.values) == [5]
    [gauge] = stored(telemetry, "my.gauge")
    assert (gauge.info.kind, list(gauge.values)) == ("gauge", [10])
    le = {one.info.labels["le"]: one.values[0] for one in stored(telemetry, "my.histogram_bucket")}
    assert le == {"1": 1, "+Inf": 2}
    assert stored(telemetry, "my.histogram_sum")[0].values[0] == 2
    assert stored(telemetry, "my.exponential.histogram_count")[0].values[0] == 3
