"""Plain values for demand as the store counts it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

COUNTS = (
    "requests",
    "shed",
    "limited",
    "from_cache",
    "input_tokens",
    "input_known",
    "output_tokens",
    "output_known",
)
"""What is counted in each step. `limited` were over a limit of their tenant or key, and are not among the `requests`.
`input_known` and `output_known` are how many requests have a number of tokens.
"""


@dataclass(frozen=True, slots=True, eq=False)
class DemandRows:
    """The steps with requests of one model, tier and region, in any order. `start_s` and each of COUNTS have one length."""

    model: str
    tier: str
    region: str
    start_s: npt.NDArray[np.int64]
    counts: Mapping[str, npt.NDArray[np.float64]]
