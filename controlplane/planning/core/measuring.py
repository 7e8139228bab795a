"""Which objective says what a pool's replicas carry."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.slo.core.objective import Objective, Timeslices
from controlplane.slo.core.sli import Latency
from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.replica_load import PoolLoad
from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.capacity_memory import still_known
from forecasting.capacity.replica_capacity import LoadWindows, Measured, measured_capacity

NS_PER_S = 1_000_000_000
DAY_S = 86_400
OF_REPLICAS = ("ttft", "itl", "e2e", "queue", "model")
"""Measures that load on replicas makes longer."""
NO_OBJECTIVE = "No latency objective covers requests of this pool: make one, so that its capacity can be measured."
NO_REQUESTS = "No request of this pool that {} judges was answered in the last {} days: its capacity is measured once there are some."


@dataclass(frozen=True, slots=True)
class Judge:
    """An objective as the ledger is counted for it."""

    slug: str
    cut: Cut
    scope: Mapping[str, str]
    target: float


def judges(objectives: Iterable[Objective]) -> list[Judge]:
    """The latency objectives, with the share of requests that each wants good: of timeslices, that of a slice."""
    return [
        Judge(
            objective.slug,
            Cut(
                objective.indicator.measure,
                (objective.indicator.threshold_ms,),
                objective.indicator.ttft_definition if objective.indicator.measure == "ttft" else "",
            ),
            objective.scope,
            objective.method.slice_target if isinstance(objective.method, Timeslices) else objective.target,
        )
        for objective in objectives
        if isinstance(objective.indicator, Latency) and objective.indicator.measure in OF_REPLICAS
    ]


def covering(counted: Iterable[Judge], model: str, variant: str, pool: str, region: str) -> list[Judge]:
    """Those that judge requests of this pool, be it only of some of its tiers or tenants."""
    own = {"model": model, "variant": variant, "pool": pool, "region": region}
    return [judge for judge in counted if all(judge.scope.get(name, value) == value for name, value in own.items())]


def windows_of(loads: Sequence[PoolLoad], step_s: int) -> LoadWindows:
    """The loads of one pool, of several ranges, as windows."""

    def joined(name: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.concatenate([getattr(load, name) for load in loads])

    return LoadWindows(
        window_s=step_s,
        day=joined("start_ns") // (DAY_S * NS_PER_S),
        requests=joined("requests"),
        replicas=joined("replicas"),
        judged=joined("judged"),
        good=joined("good"),
        input_tokens=joined("input_tokens").astype(np.float64),
        output_tokens=joined("output_tokens").astype(np.float64),
        busy_s=joined("model_ns") / NS_PER_S,
        prefill_s=joined("prefill_ns") / NS_PER_S,
        decode_s=joined("decode_ns") / NS_PER_S,
    )


def measured_by_objective(
    windows: Mapping[str, LoadWindows],
    targets: Mapping[str, float],
    slots: int | None,
    known: Mapping[str, ReplicaCapacity],
) -> dict[str, Measured]:
    """What is known for each objective (by slug) that has judged requests, or had: `known` is from before."""
    outcomes = {
        slug: measured_capacity(each, targets[slug], slots) for slug, each in windows.items() if each.judged.sum() > 0
    }
    nothing = Measured(None, "Nothing was measured in that time.")
    return {
        slug: still_known(known.get(slug), outcomes.get(slug, nothing))
        for slug in sorted(outcomes.keys() | known.keys())
    }


def strictest(outcomes: Mapping[str, Measured], covers: Sequence[str], days: int) -> tuple[str, Measured]:
    """The objective (by slug) with the lowest capacity, and what was measured for it in so many days. `covers` are those of the pool.

    An objective that was not kept at any load is stricter than any that was. Objectives without judged requests do not count; where
    there is none, the slug is empty.
    """
    if not outcomes:
        return "", Measured(None, NO_REQUESTS.format(" or ".join(covers), days) if covers else NO_OBJECTIVE)
    return min(outcomes.items(), key=lambda outcome: 0.0 if (c := outcome[1].capacity) is None else c.requests_per_s)
