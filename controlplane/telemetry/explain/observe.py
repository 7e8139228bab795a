"""Turns what the store measured into observations for the rules. A part that nobody measured stays None."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeVar

from controlplane.telemetry.explain.figures import AttemptFigures, Measured, MixFigures, PoolFigures, Serving
from controlplane.telemetry.explain.observation import (
    Batching,
    Cache,
    ColdStarts,
    Observation,
    PromptMix,
    Regions,
    Replica,
    Tokenizer,
)
from inference.contract.server_metrics import QUEUE_GAUGES, is_queue, names_model

GATEWAY_QUEUE = "weir_gateway_pool_waiting"
GPU_GAUGES = ("nv_gpu_utilization", "DCGM_FI_DEV_GPU_UTIL")
GAUGES = (*QUEUE_GAUGES, GATEWAY_QUEUE, *GPU_GAUGES)
COUNTERS = ("nv_inference_count", "nv_inference_exec_count")
M = TypeVar("M", bound=Measured)
NEAR_REQUESTS = 20  # fewer prove nothing about a region's network


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """Everything measured in a window, and in the window of the same length before it."""

    now: Sequence[PoolFigures]
    before: Sequence[PoolFigures] = ()
    attempts: Sequence[AttemptFigures] = ()
    mixes: Mapping[str, MixFigures] = field(default_factory=dict)
    gauges: Sequence[Measured] = ()
    counters: Sequence[Measured] = ()
    serving: Mapping[str, Serving] = field(default_factory=dict)


def observations(seen: Measurements) -> list[Observation]:
    """An observation of each pool that had requests in the window, by name."""
    now, before = _by_pool(seen.now), _by_pool(seen.before)
    return [_observation(pool, groups, before.get(pool, []), seen) for pool, groups in sorted(now.items())]


def _by_pool(groups: Iterable[PoolFigures]) -> dict[str, list[PoolFigures]]:
    by_pool: dict[str, list[PoolFigures]] = defaultdict(list)
    for group in groups:
        by_pool[group.pool].append(group)
    return by_pool


def _observation(pool: str, now: list[PoolFigures], before: list[PoolFigures], seen: Measurements) -> Observation:
    requests = _sum(now, "requests")
    serving = seen.serving.get(pool, Serving(pool=pool))
    stages = {stage for group in now for stage in group.stage_ns}
    gpus = gpus_of(serving, seen.gauges)
    return Observation(
        pool=pool,
        requests=requests,
        e2e_ms=_ms(_sum(now, "e2e_ns"), requests) or 0.0,
        stage_ms={
            stage: sum(group.stage_ns.get(stage, 0) for group in now) / requests / 1e6
            for stage in sorted(stages)
            if requests
        },
        failed=_sum(now, "failed"),
        refused=_sum(now, "refused"),
        queue_depth=_queue_depth(serving, seen.gauges),
        gpu_utilisation=fmean(each.value for each in gpus) if gpus else None,
        cold_starts=_cold(now),
        batching=_batching(serving, seen.counters),
        cache=_cache(now, before),
        regions=_regions(now, [*seen.now, *seen.before]),
        tokenizer=_tokenizer(now, before),
        prompts=_prompts(seen.mixes.get(pool)),
        replicas=_attempted(pool, seen.attempts) or _replicas(now),
    )


def _sum(groups: Iterable[PoolFigures], name: str) -> int:
    return sum(getattr(group, name) for group in groups)


def _ms(ns: float, requests: int) -> float | None:
    return ns / requests / 1e6 if requests else None


def _cold(now: list[PoolFigures]) -> ColdStarts | None:
    cold, own = _sum(now, "cold"), _sum(now, "own")
    cold_ns = _sum(now, "cold_e2e_ns")
    warm_ms = _ms(_sum(now, "own_e2e_ns") - cold_ns, own - cold)
    if warm_ms is None:  # no warm request to compare with
        return None
    return ColdStarts(requests=cold, cold_e2e_ms=_ms(cold_ns, cold) or 0.0, warm_e2e_ms=warm_ms)


def _attempted(pool: str, attempts: Sequence[AttemptFigures]) -> tuple[Replica, ...]:
    """Replicas by the attempts made at them, also those whose requests another replica answered in the end."""
    return tuple(
        Replica(
            name=figures.replica,
            requests=figures.attempts,
            errors=figures.failed,
            model_ms=_ms(figures.model_ns, figures.output_tokens),
        )
        for figures in attempts
        if figures.pool == pool
    )


def _replicas(now: list[PoolFigures]) -> tuple[Replica, ...]:
    """Replicas by the requests that name them, for rows without attempts. One that only fails has no time per token."""
    by_replica: dict[str, list[PoolFigures]] = defaultdict(list)
    for group in now:
        if group.replica and group.own + group.own_failed:
            by_replica[group.replica].append(group)
    return tuple(
        Replica(
            name=name,
            requests=_sum(groups, "own") + _sum(groups, "own_failed"),
            errors=_sum(groups, "own_failed"),
            model_ms=_ms(_sum(groups, "model_ns"), _sum(groups, "output_tokens")),
        )
        for name, groups in sorted(by_replica.items())
    )


def _tokenizer(now: list[PoolFigures], before: list[PoolFigures]) -> Tokenizer | None:
    tokens, tokens_before = _sum(now, "tokenized"), _sum(before, "tokenized")
    if not tokens or not tokens_before:
        return None
    return Tokenizer(
        us_per_token=_sum(now, "tokenizer_ns") / tokens / 1e3,
        us_per_token_before=_sum(before, "tokenizer_ns") / tokens_before / 1e3,
    )


def _prompts(mix: MixFigures | None) -> PromptMix | None:
    if mix is None or mix.short_with_long_queue_ns is None or mix.short_alone_queue_ns is None:
        return None
    return PromptMix(
        long_share=mix.long / mix.requests,
        short_requests=mix.short_with_long,
        short_queue_with_long_ms=mix.short_with_long_queue_ns / 1e6,
        short_queue_alone_ms=mix.short_alone_queue_ns / 1e6,
    )


def _regions(now: list[PoolFigures], everywhere: Sequence[PoolFigures]) -> Regions | None:
    """The pool's network time beside that of the nearest region for the same models.

    The ledger does not know where a request came from, so the region with the shortest network time counts as its origin, also if it
    served only in the window before (a fail-over). None where only one region serves the models, or this one is the nearest.
    """
    region, models = max(now, key=lambda group: group.requests).region, {group.model for group in now}
    requests: dict[str, int] = defaultdict(int)
    network: dict[str, int] = defaultdict(int)
    for group in everywhere:
        if group.model in models and group.region and group.own_network_ns:
            requests[group.region] += group.own
            network[group.region] += group.own_network_ns
    means = {name: network[name] / requests[name] / 1e6 for name in requests if requests[name] >= NEAR_REQUESTS}
    here = _ms(_sum(now, "own_network_ns"), _sum(now, "own"))
    if region not in means or len(means) < 2 or here is None:
        return None
    nearest = min(means, key=lambda name: (means[name], name))
    if nearest == region:
        return None
    return Regions(requests=_sum(now, "own"), network_ms=here, local_network_ms=means[nearest])


def _cache(now: list[PoolFigures], before: list[PoolFigures]) -> Cache | None:
    lookups = _sum(now, "cache_lookups")
    if not lookups:
        return None
    return Cache(
        lookups=lookups,
        hits=_sum(now, "cache_hits"),
        lookups_before=_sum(before, "cache_lookups"),
        hits_before=_sum(before, "cache_hits"),
        skipped=_sum(now, "cache_skipped"),
    )


def _batching(serving: Serving, counters: Sequence[Measured]) -> Batching | None:
    inferences, executions = (
        sum(series.value for series in counters if series.metric == name and _is_of(serving, series))
        for name in ("nv_inference_count", "nv_inference_exec_count")
    )
    if serving.batch_window_ms is None or not serving.batch_max or executions <= 0:
        return None
    return Batching(max_delay_ms=serving.batch_window_ms, max_size=serving.batch_max, mean_size=inferences / executions)


def _queue_depth(serving: Serving, gauges: Sequence[Measured]) -> float | None:
    """Requests waiting per replica, at the replicas and at the gateway."""
    at_replicas: dict[str, float] = defaultdict(float)
    for series in gauges:
        if is_queue(series.metric, series.labels) and _is_of(serving, series):
            at_replicas[series.labels.get("instance", "")] += series.value
    at_gateway = [
        series.value
        for series in gauges
        if series.metric == GATEWAY_QUEUE and series.labels.get("pool") == serving.pool
    ]
    replicas = len(at_replicas) or len(serving.instances)
    if not replicas or not (at_replicas or at_gateway):
        return None
    return (sum(at_replicas.values()) + sum(at_gateway)) / replicas


def gpus_of(serving: Serving, gauges: Iterable[M]) -> list[M]:
    """The use of the pool's GPUs, 0 to 1: from Triton, else from DCGM by the replicas' hosts or the label `pool`."""
    triton, dcgm = ([series for series in gauges if series.metric == name] for name in GPU_GAUGES)
    if ours := [series for series in triton if _is_of(serving, series)]:
        return ours
    hosts = {host(instance) for instance in serving.instances}
    return [
        replace(series, value=series.value / 100)
        for series in dcgm
        if (series.labels.get("pool", serving.pool) == serving.pool)
        and ("pool" in series.labels or host(series.labels.get("instance", "")) in hosts)
    ]


def _is_of(serving: Serving, series: Measured) -> bool:
    """Whether a server's series belongs to the pool, by its address if known, else by its label, and to the pool's model."""
    labels = series.labels
    model = labels.get("model", labels.get("model_name", ""))
    if model and serving.model_name and model != serving.model_name and names_model(series.metric):
        return False
    if serving.instances:
        return labels.get("instance") in serving.instances
    return labels.get("pool") == serving.pool


def host(instance: str) -> str:
    return instance.rpartition(":")[0]


PARTS = {
    "queue_depth": "queue depth",
    "gpu_utilisation": "GPU utilisation",
    "batching": "batch sizes and window",
    "cache": "cache lookups",
    "tokenizer": "tokenizer time per token",
    "replicas": "replicas",
}
"""The parts of an observation that a rule may need and that may be missing, in words."""


def unmeasured(seen: Sequence[Observation]) -> list[str]:
    """The parts that no pool has: no rule that needs one can name a cause."""
    return [words for part, words in PARTS.items() if seen and all(getattr(each, part) in (None, ()) for each in seen)]
