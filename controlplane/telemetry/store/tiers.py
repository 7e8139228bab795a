"""The tiers of rollups: by which steps requests and gauges are added up, out of what, and for how long each is kept."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["rollups", "demand", "metrics"]

SAMPLED = 16
"""`request_samples` has one trace in so many (read/sample.py)."""
HOUR_S, HALF_DAY_S = 3600, 43_200
"""The steps of rollups that are kept longest: by one dimension, and by all."""
KEPT_H = {300: 48, 1800: 48, HOUR_S: 240}
"""Hours for which rows of `rollups` are kept, by step. Longer steps, and slices of HOUR_S, are kept for the rollups' retention."""
RELIED_S = {step_s: kept_h * 3600 * 3 // 4 for step_s, kept_h in KEPT_H.items()}
"""The age up to which rows are read and filled, s. The store drops older ones when it comes to it, and their builds stay listed."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Rows of one step, filled by stretches of this length. `finer` is the tier that they are added up of, None for the requests."""

    kind: Kind
    step_s: int
    finer: "Tier | None" = None

    @property
    def filled_s(self) -> int | None:
        """The age up to which it is filled; None: the ledger's. Slices of hours are kept longer than hours."""
        return RELIED_S.get(self.step_s) if self.kind == "rollups" and self.step_s < HOUR_S else None

    @property
    def touched(self) -> str:
        """The table that counts the rows written."""
        return "metric_touched" if self.kind == "metrics" else "rollup_touched"


_FIVE_MINUTES = Tier("rollups", 300)
_HALF_HOUR = Tier("rollups", 1800, _FIVE_MINUTES)
_HOUR = Tier("rollups", HOUR_S, _HALF_HOUR)
_HALF_DAY = Tier("rollups", HALF_DAY_S, _HOUR)
TIERS = (Tier("demand", 300), _FIVE_MINUTES, _HALF_HOUR, _HOUR, _HALF_DAY, Tier("metrics", 300))
STEPS_S = tuple(tier.step_s for tier in reversed(TIERS) if tier.kind == "rollups")
"""Steps of rollups of requests, the coarsest first."""
