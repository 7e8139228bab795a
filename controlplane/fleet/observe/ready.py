"""One of our own processes (gateway, telemetry) by its /readyz and /metrics, as a reading."""

import json
from dataclasses import dataclass

from controlplane.fleet.observe.exposition import Labels, known, samples, total
from controlplane.fleet.observe.reading import Reading

OK = 200


@dataclass(frozen=True, slots=True)
class Names:
    """Which metrics of a process say how much it does."""

    requests: str
    errors: str
    failed_statuses: frozenset[str] = (
        frozenset()
    )  # values of the `status` label that count as errors; empty: all of them
    gauges: tuple[tuple[str, str], ...] = ()  # figure, metric


def reading(ready_status: int, ready_text: str, metrics_status: int, metrics_text: str, names: Names) -> Reading:
    """Not ready is degraded: it answers, and says what it lacks. So is a process that hides its metrics.

    Raises ValueError where the metrics are not in Prometheus' text format.
    """
    if ready_status != OK:
        return Reading("degraded", error=_reason(ready_text) or f"/readyz answers {ready_status}")
    if metrics_status != OK:
        return Reading("up", error=f"/metrics answers {metrics_status}: no figures")
    found = samples(metrics_text)

    def failed(labels: Labels) -> bool:
        return not names.failed_statuses or labels.get("status") in names.failed_statuses

    return Reading(
        "up",
        figures=known(**{figure: total(found, metric) for figure, metric in names.gauges}),
        counters=known(requests=total(found, names.requests), errors=total(found, names.errors, failed)),
    )


def _reason(text: str) -> str:
    """What the body of a 503 says, in JSON or as text."""
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()[:200]
    if isinstance(body, dict):
        return ", ".join(f"{key}: {value}" for key, value in body.items() if value not in (True, None))[:200]
    return ""
