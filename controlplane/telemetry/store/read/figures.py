"""Turns counts, quantiles and sums into reports, groups and chart points. Definitions are in latency.py."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.telemetry.core.query_types import (
    Group,
    Health,
    LatencyPoint,
    LatencyReport,
    Quantiles,
    StageFigures,
    StageShare,
    Totals,
)

from ..write.arrow_columns import PARTS
from .histograms import F64, Histogram, parts_between
from .rollups import Rolled

BANDS = {"p50": (0.4, 0.6), "p95": (0.925, 0.975), "p99": (0.985, 0.995)}
EDGES = tuple(edge for band in BANDS.values() for edge in band)
LEVELS = (0.5, 0.95, 0.99)
CUTS = (*LEVELS, 0.4, 0.6)
EMPTY = LatencyReport(requests=0, errors=0, e2e_ms=None, ttft_ms={}, ttft_count={}, stages={}, newest_ns=None)
NOTHING = Totals(requests=0, errors=0, e2e_ms=None, newest_ns=None)
"""No request in the window."""

_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Total:
    requests: int
    errors: int
    cancelled: int
    unmeasured: int
    newest_ns: int
    e2e_ns: Sequence[float]  # of answered requests, at CUTS; NaN where there are none

    @property
    def answered(self) -> int:
        return self.requests - self.errors - self.cancelled

    @property
    def e2e_ms(self) -> Quantiles | None:
        return ms(self.e2e_ns[:3]) if self.answered else None


Sums = dict[str, tuple[int, Sequence[float]]]
"""By class ("below", "middle", "above", and "both" for the upper half of the middle): count, ns in each of PARTS."""


def totals_of(rolled: Rolled) -> Totals:
    total, _, _ = _of_keys(rolled, slice(None))
    return Totals(total.requests, total.errors, total.e2e_ms, total.newest_ns, total.cancelled, exact=False)


def report_of(rolled: Rolled) -> LatencyReport:
    """Over all keys."""
    total, e2e, bands = _of_keys(rolled, slice(None))
    parts = {part: Histogram.of(rolled.parts[:, number].sum(axis=0)) for number, part in enumerate(PARTS)}
    ttft = {name: Histogram.of(counts.sum(axis=0)) for name, counts in rolled.ttft.items()}
    return replace(
        report(
            total,
            {part: ms(histogram.quantiles(LEVELS)) for part, histogram in parts.items()},
            _classes(e2e, bands),
            {name: (histogram.size, ms(histogram.quantiles(LEVELS))) for name, histogram in ttft.items()},
        ),
        exact=False,
    )


def groups_of(rolled: Rolled) -> dict[str, Group]:
    """By value of the dimension, the most frequent first."""
    groups = {}
    for at, value in enumerate(rolled.keys):
        total, e2e, bands = _of_keys(rolled, slice(at, at + 1))
        sums = _classes(e2e, bands)
        groups[str(value)] = Group(total.requests, total.errors, total.e2e_ms, shares(sums), total.cancelled)
    return dict(sorted(groups.items(), key=lambda item: (-item[1].requests, item[0])))


def health_of(rolled: Rolled) -> list[Health]:
    """By value of the dimension, in order."""
    totals = [(str(value), _of_keys(rolled, slice(at, at + 1))[0]) for at, value in enumerate(rolled.keys)]
    return [
        Health(value, total.requests, total.errors, total.e2e_ms.p95 if total.e2e_ms else None, total.newest_ns)
        for value, total in totals
    ]


def points_of(rolled: Rolled) -> list[LatencyPoint]:
    """Of steps."""
    return [_point(rolled, at, int(key)) for at, key in enumerate(rolled.keys)]


def _point(rolled: Rolled, at: int, start_ns: int) -> LatencyPoint:
    total, e2e, bands = _of_keys(rolled, slice(at, at + 1))
    ttft = {name: Histogram.of(counts[at]) for name, counts in rolled.ttft.items() if counts[at].any()}
    return LatencyPoint(
        start_ns=start_ns,
        requests=total.requests,
        errors=total.errors,
        cancelled=total.cancelled,
        e2e_ms=total.e2e_ms,
        ttft_ms={name: ms(histogram.quantiles(LEVELS)) for name, histogram in ttft.items()},
        stack_ms=stacks_of(_means_of_bands(e2e, bands)) if total.answered else {},
    )


def _of_keys(rolled: Rolled, keys: slice) -> "tuple[Total, Histogram, F64]":
    """The requests of some keys: counted, their E2E, and the sums of their parts by E2E."""
    e2e, bands = Histogram.of(rolled.e2e[keys].sum(axis=0)), rolled.bands[keys].sum(axis=0)
    requests, errors, cancelled, unmeasured = (
        int(counts[keys].sum()) for counts in (rolled.requests, rolled.errors, rolled.cancelled, rolled.unmeasured)
    )
    newest_ns = int(rolled.newest_ns[keys].max())
    return Total(requests, errors, cancelled, unmeasured, newest_ns, e2e.quantiles(CUTS)), e2e, bands


def _classes(e2e: Histogram, bands: F64) -> Sums:
    """By rank of E2E, where the exact figures go by value."""
    last = e2e.size - 1
    if last < 0:
        return {}
    low, median, high = math.ceil(0.4 * last), math.floor(0.5 * last) + 1, math.floor(0.6 * last) + 1
    high = max(high, median)
    edges = {"below": (0, low), "middle": (low, median), "both": (median, high), "above": (high, last + 1)}
    some = {name: ranks for name, ranks in edges.items() if ranks[0] < ranks[1]}
    return dict(zip(some, parts_between(e2e, bands, list(some.values())), strict=True))


def _means_of_bands(e2e: Histogram, bands: F64) -> list[float]:
    """By band of ranks, both ends included, then by part: mean ns of its requests. They add up to the mean E2E there."""
    ranges = [
        (math.floor(low * e2e.size), min(math.floor(high * e2e.size) + 1, e2e.size)) for low, high in BANDS.values()
    ]
    means = []
    for mean, (_, sums) in zip(e2e.means(ranges), parts_between(e2e, bands, ranges), strict=True):
        scale = mean / whole if (whole := sum(sums)) else 0.0
        means += [part * scale for part in sums]
    return means


def ms(nanoseconds: Sequence[float]) -> Quantiles:
    p50, p95, p99 = (value / _NS_PER_MS for value in nanoseconds)
    return Quantiles(p50, p95, p99)


def stacks_of(means: Sequence[float]) -> dict[str, dict[str, float]]:
    """`means` are ns by band, then by part."""
    size = len(PARTS)
    return {
        band: {part: value / _NS_PER_MS for part, value in zip(PARTS, means[at * size : (at + 1) * size], strict=True)}
        for at, band in enumerate(BANDS)
    }


def _mean(sums: Sums, *classes: str) -> list[float] | None:
    """Mean ns by part over some classes; None where no request is in them."""
    chosen = [sums[name] for name in classes if name in sums]
    count = sum(number for number, _ in chosen)
    return [sum(parts) / count for parts in zip(*(parts for _, parts in chosen), strict=True)] if count else None


def _excess(sums: Sums) -> list[float]:
    """By part, its share of what requests above the median take longer than the middle fifth."""
    above, middle = _mean(sums, "above", "both"), _mean(sums, "middle", "both") or _mean(sums, *sums)
    if above is None or middle is None:
        return [0.0] * len(PARTS)
    more = [high - usual for high, usual in zip(above, middle, strict=True)]
    return [part / sum(more) for part in more] if sum(more) else [0.0] * len(PARTS)


def shares(sums: Sums) -> dict[str, StageShare]:
    """Nothing where no request was answered."""
    if not sums:
        return {}
    means = _mean(sums, *sums) or [0.0] * len(PARTS)
    whole = sum(means)
    return {
        name: StageShare(mean / _NS_PER_MS, mean / whole if whole else 0.0, above)
        for name, mean, above in zip(PARTS, means, _excess(sums), strict=True)
    }


def report(
    total: Total, stages: Mapping[str, Quantiles], sums: Sums, ttft: Mapping[str, tuple[int, Quantiles]]
) -> LatencyReport:
    return LatencyReport(
        requests=total.requests,
        errors=total.errors,
        cancelled=total.cancelled,
        unmeasured=total.unmeasured,
        e2e_ms=total.e2e_ms,
        ttft_ms={name: quantiles for name, (_, quantiles) in ttft.items()},
        ttft_count={name: number for name, (number, _) in ttft.items()},
        stages={
            name: StageFigures(
                stages[name].p50, stages[name].p95, stages[name].p99, of.mean_ms, of.share, of.share_above_median
            )
            for name, of in shares(sums).items()
        },
        newest_ns=total.newest_ns,
    )
