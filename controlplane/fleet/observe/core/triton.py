"""Reads a Triton replica's health, statistics and metrics."""

import json

from controlplane.fleet.observe.core.prometheus_text import Labels, families, known, total
from controlplane.fleet.observe.core.reading import Reading, down
from inference.contract.server_metrics import TRITON_PENDING

OK = 200


def reading(ready_status: int, stats_text: str, metrics_text: str, model: str) -> Reading:
    """The replica as the pool's `model` sees it.

    `ready_status` of GET v2/health/ready, `stats_text` of GET v2/models/stats, `metrics_text` of /metrics, empty where
    it has none. Means of queue and compute are the server's own. A request that its client cancelled is no error; only the
    metrics distinguish the two. Raises ValueError where a text is not what Triton answers.
    """
    if ready_status != OK:
        return down(f"v2/health/ready answers {ready_status}")
    stats = _inference_stats(stats_text, model)
    if stats is None:
        return down(f"model {model!r} is not loaded: load it, or correct the pool's model name")
    page = families(metrics_text)

    def ours(labels: Labels) -> bool:
        return labels.get("model") == model

    def failures(labels: Labels) -> bool:
        return ours(labels) and labels.get("reason") != "CANCELED"

    failed = total(page, "nv_inference_request_failure", failures)
    return Reading(
        state="up",
        figures=known(
            pending=total(page, TRITON_PENDING.name, ours),
            host_cpu_ratio=total(page, "nv_cpu_utilization"),  # of the machine, not of Triton
            gpu_memory_used_bytes=total(page, "nv_gpu_memory_used_bytes"),
            gpu_memory_total_bytes=total(page, "nv_gpu_memory_total_bytes"),
        ),
        counters={
            "requests": stats["success"]["count"] + stats["fail"]["count"],
            "errors": stats["fail"]["count"] if failed is None else failed,
            "queue_ns": stats["queue"]["ns"],
            "compute_ns": stats["compute_infer"]["ns"],
        },
    )


def _inference_stats(text: str, model: str) -> dict[str, dict[str, int]] | None:
    """`{"success": {"count", "ns"}, …}` of `model` summed over its versions; None where it is not loaded."""
    try:
        versions = [
            version["inference_stats"] for version in json.loads(text)["model_stats"] if version["name"] == model
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"v2/models/stats is not understood: {error!r}") from error
    if not versions:
        return None
    return {
        kind: {part: sum(int(version.get(kind, {}).get(part, 0)) for version in versions) for part in ("count", "ns")}
        for kind in ("success", "fail", "queue", "compute_infer")
    }


def batching(config_text: str) -> dict[str, float]:
    """How the server batches, of GET v2/models/NAME/config: `batch_max` requests, and `batch_window_ms`, for which one may be held back.

    A server that batches nothing has a largest batch of 1 and no window. Raises ValueError where the text is not what Triton answers.
    """
    try:
        config = json.loads(config_text)
        most, dynamic = int(config.get("max_batch_size", 0)), config.get("dynamic_batching") or {}
        window_us = float(dynamic.get("max_queue_delay_microseconds", 0)) if most else 0.0
    except (AttributeError, TypeError) as error:
        raise ValueError(f"the model's config is not understood: {error!r}") from error
    return {"batch_max": float(max(1, most)), "batch_window_ms": window_us / 1e3}
