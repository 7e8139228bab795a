"""Averages of Triton's queue and compute times without traces, from two readings of its statistics or from its metrics over a range.

The result has averages only: Triton reports no quantiles.

`GET v2/models/stats` gives, per model and version, counts and total nanoseconds since it was loaded.
https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/extension_statistics.html
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from controlplane.telemetry.explain.figures import Measured

REQUESTS = "nv_inference_request_success"
METRICS = (
    REQUESTS, "nv_inference_queue_duration_us", "nv_inference_compute_input_duration_us", "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
)  # fmt: skip
"""Triton's counters whose growth over a range gives the averages."""
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


class _Duration(msgspec.Struct):
    count: int = 0
    ns: int = 0


class _Model(msgspec.Struct):
    name: str
    version: str = ""
    inference_stats: dict[str, _Duration] = {}


class _Answer(msgspec.Struct):
    model_stats: list[_Model]


_decode = msgspec.json.Decoder(_Answer).decode


@dataclass(frozen=True, slots=True)
class Totals:
    """Successful requests and nanoseconds by part since the model was loaded."""

    requests: int
    ns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Averages:
    """Milliseconds per successful request, averaged over `requests` between two readings."""

    requests: int
    queue_ms: float
    compute_ms: float  # input, inference and output together
    compute_input_ms: float
    compute_infer_ms: float
    compute_output_ms: float
    reset: bool  # the model was loaded again in between: the averages are of the time after that
    statistic: str = "average"


def totals(stats: bytes | str) -> dict[tuple[str, str], Totals]:
    """Totals by model and version. Raises ValueError where the text is not Triton's answer."""
    try:
        models = _decode(stats).model_stats
    except msgspec.DecodeError as error:
        raise ValueError(f"v2/models/stats is not understood: {error}") from error
    return {
        (model.name, model.version): Totals(
            model.inference_stats.get("success", _Duration()).count,
            {part: model.inference_stats.get(part, _Duration()).ns for part in PARTS},
        )
        for model in models
    }


def averages(before: Totals, after: Totals) -> Averages | None:
    """The averages between two readings. None where no request ended.

    Triton does not count the time in which decoupled models stream, so their averages cover only the first response.
    """
    reset = after.requests < before.requests or any(after.ns[part] < before.ns[part] for part in PARTS)
    requests = after.requests - (0 if reset else before.requests)
    if requests <= 0:
        return None
    ms = {part: (after.ns[part] - (0 if reset else before.ns[part])) / requests / 1e6 for part in PARTS}
    compute_ms = ms["compute_input"] + ms["compute_infer"] + ms["compute_output"]
    return Averages(
        requests, ms["queue"], compute_ms, ms["compute_input"], ms["compute_infer"], ms["compute_output"], reset
    )


@dataclass(frozen=True, slots=True)
class ServerAverages:
    """One server's averages of one of its models, over a range."""

    instance: str
    model: str
    averages: Averages


def by_server(grown: Iterable[Measured]) -> list[ServerAverages]:
    """The averages of each server and model, from the growth of METRICS, without those that had no request in the range or of which a
    metric is missing."""
    by_model: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for measured in grown:
        key = measured.labels.get("instance", ""), measured.labels.get("model", "")
        by_model[key][measured.metric] += measured.value  # all versions together
    return [
        ServerAverages(instance, model, _over(amounts))
        for (instance, model), amounts in sorted(by_model.items())
        if amounts.get(REQUESTS, 0) > 0 and amounts.keys() >= set(METRICS)
    ]


def _over(amounts: Mapping[str, float]) -> Averages:
    requests = amounts[REQUESTS]
    queue, taken, inferred, given = (amounts[metric] / requests / 1e3 for metric in METRICS[1:])
    return Averages(round(requests), queue, taken + inferred + given, taken, inferred, given, reset=False)
