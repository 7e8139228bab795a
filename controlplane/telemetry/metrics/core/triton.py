"""Averages of Triton's queue and compute times without traces, from the growth of its counters over a range.

The result has averages only: Triton reports no quantiles. It does not count the time in which decoupled models stream, so their
averages cover only the first response.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.telemetry.explain.figures import Measured

REQUESTS = "nv_inference_request_success"
METRICS = (
    REQUESTS, "nv_inference_queue_duration_us", "nv_inference_compute_input_duration_us", "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
)  # fmt: skip
"""Triton's counters whose growth over a range gives the averages."""


@dataclass(frozen=True, slots=True)
class ServerAverages:
    """Milliseconds per successful request of one server's model, averaged over the `requests` of a range."""

    instance: str
    model: str
    requests: int
    queue_ms: float
    compute_ms: float  # input, inference and output together
    compute_input_ms: float
    compute_infer_ms: float
    compute_output_ms: float


def by_server(grown: Iterable[Measured]) -> list[ServerAverages]:
    """The averages of each server and model, from the growth of METRICS, without those that had no request in the range or of which a
    metric is missing."""
    by_model: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for measured in grown:
        key = measured.labels.get("instance", ""), measured.labels.get("model", "")
        by_model[key][measured.metric] += measured.value  # all versions together
    servers = []
    for (instance, model), amounts in sorted(by_model.items()):
        if amounts.get(REQUESTS, 0) > 0 and amounts.keys() >= set(METRICS):
            requests = amounts[REQUESTS]
            queue, taken, inferred, given = (amounts[metric] / requests / 1e3 for metric in METRICS[1:])
            compute = taken + inferred + given
            servers.append(ServerAverages(instance, model, round(requests), queue, compute, taken, inferred, given))
    return servers
