"""Plain values of the load on pools' replicas."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class PoolLoad:
    """A pool by steps that had requests: arrays of one length. `start_ns` is the step's start.

    `requests` were sent to `replicas` different replicas. Of the `judged` ones, `good` kept the objective. Tokens and times (ns)
    are sums over the requests; `model_ns` is the stage model.
    """

    pool: str
    start_ns: npt.NDArray[np.int64]
    requests: npt.NDArray[np.int64]
    replicas: npt.NDArray[np.int64]
    judged: npt.NDArray[np.int64]
    good: npt.NDArray[np.int64]
    input_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    model_ns: npt.NDArray[np.int64]
    prefill_ns: npt.NDArray[np.int64]
    decode_ns: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """A server loaded a model, as its own spans say. Names are empty where nothing names them."""

    start_ns: int
    duration_ns: int
    adapter: str
    service: str
    model: str
    pool: str
    replica: str


@dataclass(frozen=True, slots=True)
class ReplicaStart:
    """A replica's creation, and the end of its first good answer after it, ns since the epoch; None where there was none."""

    pool: str
    replica: str
    created_ns: int
    answered_ns: int | None
