"""What a replica carries, for requests of the size of now."""

import numpy as np

from forecasting.capacity.assumptions import ReplicaCapacity
from forecasting.capacity.demand_on_pools import Load, work

_NOTHING = np.zeros(0)


def capacity_now(capacity: ReplicaCapacity, input_tokens: float | None, output_tokens: float | None) -> float:
    """Requests/s of this many tokens each; of the measured mix where the tokens are not known."""
    inputs, outputs = (None if value is None else np.array([value]) for value in (input_tokens, output_tokens))
    weight = float(np.max(work(Load("", "", _NOTHING, _NOTHING, inputs, outputs), capacity)))
    return capacity.requests_per_s / weight if weight > 0 else capacity.requests_per_s
