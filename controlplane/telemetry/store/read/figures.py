"""Turns counts, quantiles and sums into reports, groups and chart points. Definitions are in latency.py."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.telemetry.core.query_types import (
    Group,
    LatencyPoint,
    LatencyReport,
    Quantiles,
    StageFigures,
    StageShare,
    Totals,
)

from ..write.arrow_columns import PARTS
from .presorted import PresortedFigures
from .rank_bins import Weighted

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


Sums = dict[str, tuple[int, Sequence[int]]]
"""By class ("below", "middle", "above", and "both" for the upper half of the middle): count, ns in each of PARTS."""


def totals_of(figures: PresortedFigures) -> Totals:
    requests, errors, cancelled = _counted(figures, 0, int(figures.e2e.sizes[0]))
    return Totals(requests, errors, ms(figures.e2e.quantiles(LEVELS)[0]), figures.newest_ns, cancelled)


def _counted(figures: PresortedFigures, key: int, answered: int) -> tuple[int, int, int]:
    """Requests, errors and cancelled ones of a key."""
    errors, cancelled = figures.errors[key], figures.cancelled[key]
    return answered + errors + cancelled, errors, cancelled


def _unanswered(figures: PresortedFigures) -> list[int]:
    """The keys without an answered request."""
    return sorted((figures.errors.keys() | figures.cancelled.keys()) - set(figures.e2e.keys.tolist()))


def report_of(figures: PresortedFigures) -> LatencyReport:
    cuts = figures.e2e.quantiles(CUTS)[0].tolist()
    [(_, weighed)] = figures.e2e.weighted()
    return report(
        Total(*_counted(figures, 0, int(figures.e2e.sizes[0])), figures.unmeasured[0], figures.newest_ns, cuts),
        {part: ms(measure.quantiles(LEVELS)[0]) for part, measure in figures.parts.items()},
        _classes(weighed, cuts),
        {name: (int(measure.sizes[0]), ms(measure.quantiles(LEVELS)[0])) for name, measure in figures.ttft.items()},
    )


def groups_of(figures: PresortedFigures) -> dict[str, Group]:
    """By model, the most frequent first."""

    def group(key: int, answered: int, e2e: Quantiles | None, sums: Sums) -> Group:
        requests, errors, cancelled = _counted(figures, key, answered)
        return Group(requests, errors, e2e, shares(sums), cancelled)

    groups = {
        figures.models[key]: group(key, int(size), ms(cuts[:3]), _classes(weighed, cuts))
        for (key, weighed), size, cuts in zip(
            figures.e2e.weighted(), figures.e2e.sizes, figures.e2e.quantiles(CUTS).tolist(), strict=True
        )
    }
    groups |= {figures.models[key]: group(key, 0, None, {}) for key in _unanswered(figures)}
    return dict(sorted(groups.items(), key=lambda item: (-item[1].requests, item[0])))


def points_of(figures: PresortedFigures, step_ns: int) -> list[LatencyPoint]:
    e2e = figures.e2e
    ttft: dict[int, dict[str, Quantiles]] = defaultdict(dict)
    for name, measure in figures.ttft.items():
        for key, quantiles in zip(measure.keys.tolist(), measure.quantiles(LEVELS), strict=True):
            ttft[key][name] = ms(quantiles)
    steps = zip(e2e.weighted(), e2e.sizes, e2e.quantiles(LEVELS), e2e.at_shares(EDGES), strict=True)

    def point(key: int, answered: int, e2e: Quantiles | None, stacks: dict[str, dict[str, float]]) -> LatencyPoint:
        requests, errors, cancelled = _counted(figures, key, answered)
        return LatencyPoint(key * step_ns, requests, errors, e2e, ttft.get(key, {}), stacks, cancelled)

    points = [
        point(
            key,
            int(size),
            ms(quantiles),
            stacks_of([mean for at in range(0, len(edges), 2) for mean in _band(weighed, *edges[at : at + 2])]),
        )
        for (key, weighed), size, quantiles, edges in steps
    ]
    points += [point(key, 0, None, {}) for key in _unanswered(figures)]
    return sorted(points, key=lambda point: point.start_ns)


def _classes(weighed: Weighted, cuts: Sequence[float]) -> Sums:
    median, low, high = cuts[0], cuts[3], cuts[4]
    middle, above = (weighed.values >= low) & (weighed.values <= high), weighed.values > median
    classes = {"both": middle & above, "middle": middle & ~above, "above": above & ~middle, "below": ~above & ~middle}
    return {name: weighed.sums(chosen) for name, chosen in classes.items() if chosen.any()}


def _band(weighed: Weighted, low: float, high: float) -> list[float]:
    """Mean ns by part of the requests between two E2E, both included."""
    first, last = np.searchsorted(weighed.values, low, side="left"), np.searchsorted(weighed.values, high, side="right")
    count, sums = weighed.sums(slice(first, last))
    return [part / count for part in sums]


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
