"""Plain values of the requests of two pools that are compared."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CanaryRow:
    """Requests of a pool that began in one minute, and in one of the times that are compared (`stratum`).

    `slow` of the answered ones took longer than the baseline's quantile of that stratum, `too_slow` longer than `1 + tolerance` times it.
    """

    stratum: int
    pool: str
    minute: int
    requests: int
    failed: int
    answered: int
    slow: int
    too_slow: int


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """Answered requests of a pool in one stratum that have a measure. `high` of them are above the baseline's quantile of that stratum,
    `too_high` above it by the tolerance. Of a score they are those below.
    """

    measure: str
    stratum: int
    pool: str
    known: int
    high: int
    too_high: int


SCORE = "score:"
"""Begins the names of measures that are scores."""


@dataclass(frozen=True, slots=True)
class Score:
    """What somebody says of the answer to the request of a trace (32 hex digits). A higher value is better."""

    trace_id: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class CanaryReading:
    """`quantiles_ms` are of the answered requests, by (stratum, pool)."""

    rows: tuple[CanaryRow, ...]
    quantiles_ms: dict[tuple[int, str], float]
    measured: tuple[MeasuredRow, ...] = ()
