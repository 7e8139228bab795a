"""How much the replicas of a pool carry together."""

import math

import numpy as np

from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.series import F64, I64

MAX_REPLICAS = 10**9
"""No load needs more: a count that no integer holds would be a small one."""
KEPT_FOR = 1.1
"""A replica is kept while so many times the demand would need it, because forecasts that are renewed differ by a few percent. It is the
tolerance of Kubernetes' Horizontal Pod Autoscaler.
"""
SLACK = 1e-9
"""Rounding errors of a load that is exactly what so many replicas carry."""


def carried_rps(replicas: int, capacity: ReplicaCapacity) -> float:
    """Requests/s of the measured mix that `replicas` carry at the objective, never more than each of them did when measured.

    A pool smaller than the measured pool has fewer slots in which a burst finds room. Pools in which as many requests wait have the
    same β = (1 - ρ) √N, for N slots of which the share ρ is in use (Halfin and Whitt 1981, "Heavy-traffic limits for queues with
    many exponential servers", Operations Research 29(3), theorem 1).
    """
    linear = replicas * capacity.requests_per_s
    residence_s = capacity.residence_s
    if residence_s is None or capacity.slots is None or replicas >= capacity.measured_replicas:
        return linear
    free = max(0.0, 1 - capacity.requests_per_s * residence_s / capacity.slots)
    beta = free * math.sqrt(capacity.measured_replicas * capacity.slots)
    slots = replicas * capacity.slots
    return min(linear, max(0.0, slots - beta * math.sqrt(slots)) / residence_s)


def replicas_for(load_rps: F64, capacity: ReplicaCapacity) -> tuple[I64, I64]:
    """Replicas for each load (requests/s of the measured mix), and how many of them would do without room for bursts."""
    load_rps = np.minimum(load_rps, MAX_REPLICAS * capacity.requests_per_s)
    linear = np.ceil(load_rps / capacity.requests_per_s - SLACK).astype(np.int64)
    small = np.array([carried_rps(count, capacity) for count in range(capacity.measured_replicas)])
    steps = np.maximum.accumulate(small)
    needed = np.searchsorted(steps, load_rps * (1 - SLACK), side="left").astype(np.int64)
    return np.maximum(linear, needed), linear


def replicas_of(load_rps: float, capacity: ReplicaCapacity) -> int:
    """Replicas for a single load, as `replicas_for` has it."""
    load_rps = min(load_rps, MAX_REPLICAS * capacity.requests_per_s)
    count = math.ceil(load_rps / capacity.requests_per_s - SLACK)
    while carried_rps(count, capacity) < load_rps * (1 - SLACK):
        count += 1
    return max(0, count)


def carried_by(replicas: I64, capacity: ReplicaCapacity) -> F64:
    """`carried_rps` of each count."""
    counts, at = np.unique(replicas, return_inverse=True)
    carried: F64 = np.array([carried_rps(int(count), capacity) for count in counts])[at]
    return carried
