"""Plain values for the counts that objectives need of the store."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

AVAILABILITIES = ("availability", "availability_with_client_errors")
"""A client's own mistake is not counted by the first, and bad by the second."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A measure and the thresholds that cut it, ascending: ms of latency, USD per 1,000 tokens of cost, none of availability."""

    measure: str  # one of AVAILABILITIES, "cost", "ttft", "itl", "e2e", or one of STAGES
    thresholds: tuple[float, ...] = ()
    ttft_definition: str = ""


@dataclass(frozen=True, slots=True)
class Classes:
    """Requests by step of entry time, values of the dimensions, cut, and class. Columns of one length.

    `place` is how many thresholds the value exceeds; for availability 0 is good and 1 is bad. `bound` marks cancelled requests: only a
    lower bound of their value is known, so they are bad for the thresholds below it and not counted for the others.
    """

    step: npt.NDArray[np.int64]  # steps since the epoch
    dimensions: Mapping[str, npt.NDArray[np.object_]]
    cut: npt.NDArray[np.int64]  # index
    place: npt.NDArray[np.int64]
    bound: npt.NDArray[np.bool_]
    requests: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FailedAs:
    """Requests that failed in the same way. `tenant`: the only one that they are of; empty where they are of several, or of none."""

    error_type: str
    http_status: int | None
    stage: str
    requests: int
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class CountedStep:
    start_ns: int
    bad: int
    total: int
