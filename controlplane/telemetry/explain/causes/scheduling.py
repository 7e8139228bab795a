"""Causes in how work reaches the GPUs: queues and batches."""

from controlplane.core.formatting import TEXT
from controlplane.telemetry.explain.causes.cause import Cause, Evidence
from controlplane.telemetry.explain.observation import Observation

IDLE = 0.5  # a GPU less busy than this had room for waiting requests
BUSY = 0.9
DEEP = 1.0  # waiting per replica, on average over the window
EMPTY = 0.1
WAITS_FOR_MATES = 0.5  # of the batching window: the mean wait of a request that no others join
FULL = 0.5  # of the largest batch: a window that fills batches this far is worth its wait
SMALL = 0.25
NOTABLE_SHARE = 0.05  # of E2E


def long_batching_window(seen: Observation) -> Cause | None:
    """Requests wait as long as the batching window while batches stay small: no others join them."""
    batching, queue_ms = seen.batching, seen.stage_ms.get("queue")
    if batching is None or queue_ms is None or batching.max_delay_ms < NOTABLE_SHARE * seen.e2e_ms:
        return None
    waits = WAITS_FOR_MATES * batching.max_delay_ms <= queue_ms <= batching.max_delay_ms / WAITS_FOR_MATES
    if not waits or batching.mean_size > FULL * batching.max_size:
        return None
    if seen.gpu_utilisation is not None and seen.gpu_utilisation >= BUSY:
        return None  # they wait for a GPU
    return Cause(
        "batching-window-too-long",
        f"requests of {seen.pool} wait {TEXT.ms(queue_ms)} for a batch that stays at {batching.mean_size:.1f} of {batching.max_size}",
        min(queue_ms, batching.max_delay_ms),
        (
            Evidence("mean wait in the queue", queue_ms, "ms", 0),
            Evidence("batching window", batching.max_delay_ms, "ms"),
            Evidence("mean batch", batching.mean_size, "requests", batching.max_size),
        ),
    )


def deep_queue_idle_gpus(seen: Observation) -> Cause | None:
    """Requests wait while GPUs have room: they do not reach the GPUs, and more replicas will not help."""
    if seen.queue_depth is None or seen.gpu_utilisation is None:
        return None
    if seen.queue_depth < DEEP or seen.gpu_utilisation >= IDLE:
        return None
    return Cause(
        "queue-deep-gpus-idle",
        f"{seen.queue_depth:.1f} requests wait per replica of {seen.pool} while its GPUs are {TEXT.share(seen.gpu_utilisation)} busy",
        seen.stage_ms.get("queue", 0.0),
        (
            Evidence("waiting per replica", seen.queue_depth, "requests", 0),
            Evidence("GPUs busy", 100 * seen.gpu_utilisation, "%", 100 * BUSY),
        ),
    )


def busy_gpus_empty_queue(seen: Observation) -> Cause | None:
    """Small batches keep the GPUs busy while no request waits."""
    batching = seen.batching
    if seen.queue_depth is None or seen.gpu_utilisation is None or batching is None:
        return None
    small = batching.max_size > 1 and batching.mean_size <= SMALL * batching.max_size
    if not small or seen.queue_depth > EMPTY or seen.gpu_utilisation < BUSY:
        return None
    return Cause(
        "gpus-busy-queue-empty",
        f"the GPUs of {seen.pool} are {TEXT.share(seen.gpu_utilisation)} busy "
        f"with batches of {batching.mean_size:.1f} of {batching.max_size}",
        seen.stage_ms.get("model", 0.0) * (1 - batching.mean_size / batching.max_size),
        (
            Evidence("GPUs busy", 100 * seen.gpu_utilisation, "%"),
            Evidence("mean batch", batching.mean_size, "requests", batching.max_size),
            Evidence("waiting per replica", seen.queue_depth, "requests"),
        ),
    )
