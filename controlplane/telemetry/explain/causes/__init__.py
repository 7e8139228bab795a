"""Finds known causes of slowness. Each is a rule over an `Observation`, and states its evidence."""

from collections.abc import Callable

from controlplane.telemetry.explain.causes.cause import Cause
from controlplane.telemetry.explain.causes.replicas import cold_replica, no_replica_up, sick_replica
from controlplane.telemetry.explain.causes.scheduling import (
    busy_gpus_empty_queue,
    deep_queue_idle_gpus,
    long_batching_window,
)
from controlplane.telemetry.explain.causes.traffic import (
    cache_collapse,
    cross_region_traffic,
    long_prompts_block_short,
    tokenizer_saturation,
)
from controlplane.telemetry.explain.observation import Observation

RULES: tuple[Callable[[Observation], Cause | None], ...] = (
    no_replica_up,
    cold_replica,
    long_batching_window,
    deep_queue_idle_gpus,
    busy_gpus_empty_queue,
    cache_collapse,
    cross_region_traffic,
    tokenizer_saturation,
    long_prompts_block_short,
    sick_replica,
)


def known_causes(seen: Observation) -> list[Cause]:
    """Every known cause that the observation shows: those with failed requests first, then by impact. None without requests."""
    if not seen.requests:
        return [cause] if (cause := no_replica_up(seen)) else []
    causes = (cause for rule in RULES if (cause := rule(seen)))
    return sorted(causes, key=lambda cause: (-cause.failed, -cause.impact_ms, cause.name))
