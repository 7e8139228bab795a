"""Plain values for demand as the store counts it, and which of its steps are known."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

COUNTS = ("requests", "shed", "limited", "from_cache", "input_tokens", "input_known", "output_tokens", "output_known")
"""What is counted in each step. `limited` were over a limit of their tenant or key, and are not among the `requests`.
`input_known` and `output_known` are how many requests have a number of tokens.
"""
STEPS_PER_DAY = 288
MIN_SHARE = 0.5
"""A step that was measured for less than this part of it is a gap."""
NEAR_STEPS = 6
"""The same time of another day, in steps to either side."""
MANY_REQUESTS = 20
"""Where so many are usual in five minutes, none is no chance: of Poisson arrivals it has one in 500 million."""


@dataclass(frozen=True, slots=True, eq=False)
class DemandRows:
    """The steps with requests of one model, tier and region, in any order. `start_s` and each of COUNTS have one length."""

    model: str
    tier: str
    region: str
    start_s: npt.NDArray[np.int64]
    counts: Mapping[str, F64]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """For which part of each five minutes requests would have been seen, had there been any: 0 to 1. The first STEPS_PER_DAY of them
    lie before the range. `requests` are those that arrived, by region.
    """

    share: F64
    requests: Mapping[str, F64]
    steps: int = 1
    """How many five minutes make a step of the range."""

    def of(self, region: str) -> F64:
        """For which part of each step of the range demand from there is known: MIN_SHARE to 1, or 0."""
        arrived = self.requests.get(region)
        share = self.share if arrived is None else np.where(without_clients(arrived, self.share), 0.0, self.share)
        means = share[STEPS_PER_DAY:].reshape(-1, self.steps).mean(axis=1)
        return np.where(means >= MIN_SHARE, means, 0.0)


def served(looks: F64, arrived: F64) -> F64:
    """For which part of each step a gateway was there: `looks` is the part of the looks at it that found it, NaN without one.

    Looks that find nothing while requests arrive, in a step and those around it, are no outage: whoever looks does not reach it.
    """
    there = np.where(np.isnan(looks), 1.0, looks)
    steady = np.convolve(arrived > 0, np.ones(3), "same") == 3
    return np.where((there == 0) & steady, 1.0, there)


def without_clients(arrived: F64, share: F64) -> npt.NDArray[np.bool_]:
    """The steps in which no request arrived, and those beside them, where a day before MANY_REQUESTS did in each step around that time:
    the clients, or the network between, were away. After a day of it there is no demand. The day before a gap is the one before that.
    """
    usual = np.where(share >= MIN_SHARE, arrived, np.nan)
    for start in range(STEPS_PER_DAY, len(usual), STEPS_PER_DAY):
        day = usual[start : start + STEPS_PER_DAY]
        before = usual[start - STEPS_PER_DAY : start][: len(day)]
        day[np.isnan(day)] = before[np.isnan(day)]
    around = np.pad(np.nan_to_num(usual), NEAR_STEPS, mode="edge")
    least = np.lib.stride_tricks.sliding_window_view(around, 2 * NEAR_STEPS + 1).min(axis=1)
    before_s = np.concatenate([np.zeros(STEPS_PER_DAY), least])[: len(arrived)]
    silent = (arrived == 0) & (share >= MIN_SHARE) & (before_s >= MANY_REQUESTS)
    return np.convolve(silent, np.ones(3), "same") > 0
