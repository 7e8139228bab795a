"""How high a stored metric is for a pool. What one of the replicas does not say is not known of the pool."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from controlplane.telemetry.explain.figures import Measured, Serving
from controlplane.telemetry.explain.observe import gpus_of, host
from inference.contract.server_metrics import is_part


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Measured):
    """A series' newest value and its time. `ended`: its source says that it is over, or could not be read."""

    time_ns: int
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """Over all series; `time_ns` is that of the oldest."""

    total: float
    mean: float
    time_ns: int


def gpu_use(samples: Sequence[Sample], serving: Serving) -> Level | None:
    """The share of the pool's GPUs in use, 0 to 1."""
    return _of_all(gpus_of(serving, [each for each in samples if not each.ended]), serving)


def of_pool(samples: Sequence[Sample], serving: Serving) -> Level | None:
    """Of the series of the pool's replicas, and those whose label `pool` names it. Parts of a total do not count beside it."""
    return _of_all(
        [
            each
            for each in samples
            if not each.ended
            and not is_part(each.metric, each.labels)
            and (each.labels.get("instance") in serving.instances or each.labels.get("pool") == serving.pool)
        ],
        serving,
    )


def of_labels(samples: Sequence[Sample]) -> Level | None:
    """Of all these series. One that has ended may come back: what it had is not known to be gone."""
    return None if any(each.ended for each in samples) else _level(samples)


def last_moved_ns(times: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> int:
    """When the newest value was first read, since it was another; the first time where all values are the same. 0 without any."""
    times, values = times[~np.isnan(values)], values[~np.isnan(values)]
    others = np.flatnonzero(values != values[-1:])
    return int(times[others[-1] + 1 if len(others) else 0]) if len(times) else 0


def _of_all(samples: Sequence[Sample], serving: Serving) -> Level | None:
    instances = {each.labels.get("instance", "") for each in samples}
    wanted = serving.instances
    if not instances & wanted:  # an exporter of its own on each host, or none that is known by its address
        instances, wanted = {host(each) for each in instances}, frozenset(map(host, wanted))
    return None if instances & wanted and not wanted <= instances else _level(samples)


def _level(samples: Sequence[Sample]) -> Level | None:
    values = [each.value for each in samples]
    if not values or not all(map(math.isfinite, values)):
        return None
    return Level(sum(values), fmean(values), min(each.time_ns for each in samples))
