"""Turns counts, quantiles and sums into reports, groups and chart points. Definitions are in latency.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controlplane.telemetry.core.query_types import (
    HEATMAP_EDGES_NS,
    Group,
    Health,
    HeatmapCell,
    LatencyPoint,
    LatencyReport,
    Quantiles,
    StageFigures,
    StageShare,
    Totals,
)

from ..write.arrow_columns import PARTS
from .histograms import MIDS, Histograms, parts_between
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
    if not rolled.keys:
        return NOTHING
    rolled = rolled.whole()
    [total] = _totals(rolled, rolled.e2e_histograms())
    return Totals(total.requests, total.errors, total.e2e_ms, total.newest_ns, total.cancelled, exact=False)


def report_of(rolled: Rolled) -> LatencyReport:
    """Over all keys."""
    if not rolled.keys:
        return EMPTY
    rolled = rolled.whole()
    e2e = rolled.e2e_histograms()
    [total], [sums] = _totals(rolled, e2e), _classes(rolled, e2e)
    stages = dict(zip(PARTS, map(ms, Histograms.of(rolled.parts).quantiles(LEVELS).tolist()), strict=True))
    [ttft] = _ttft(rolled)
    return replace(report(total, stages, sums, ttft), exact=False)


def groups_of(rolled: Rolled) -> dict[str, Group]:
    """By value of the dimension, the most frequent first."""
    if not rolled.keys:
        return {}
    e2e = rolled.e2e_histograms()
    groups = {
        str(value): Group(total.requests, total.errors, total.e2e_ms, shares(sums), total.cancelled)
        for value, total, sums in zip(rolled.keys, _totals(rolled, e2e), _classes(rolled, e2e), strict=True)
    }
    return dict(sorted(groups.items(), key=lambda item: (-item[1].requests, item[0])))


def health_of(rolled: Rolled) -> list[Health]:
    """By value of the dimension, in order."""
    return [
        Health(str(value), total.requests, total.errors, total.e2e_ms.p95 if total.e2e_ms else None, total.newest_ns)
        for value, total in zip(rolled.keys, _totals(rolled, rolled.e2e_histograms()), strict=True)
    ]


def points_of(rolled: Rolled) -> list[LatencyPoint]:
    """Of steps."""
    if not rolled.keys:
        return []
    e2e = rolled.e2e_histograms()
    return [
        LatencyPoint(
            start_ns=int(key),
            requests=total.requests,
            errors=total.errors,
            cancelled=total.cancelled,
            e2e_ms=total.e2e_ms,
            ttft_ms={name: quantiles for name, (_, quantiles) in ttft.items()},
            stack_ms=stacks_of(means) if total.answered else {},
        )
        for key, total, ttft, means in zip(
            rolled.keys, _totals(rolled, e2e), _ttft(rolled), _means_of_bands(rolled, e2e), strict=True
        )
    ]


def cells_of(rolled: Rolled) -> list[HeatmapCell]:
    """Of steps: a bin counts in the row that its middle lies in, so the rows' edges are within 0.5 %."""
    first, bins = rolled.first_bin, rolled.e2e.shape[1]
    row_of = np.searchsorted(HEATMAP_EDGES_NS, MIDS[first : first + bins], side="right") - 1
    counts = np.zeros((len(rolled.keys), len(HEATMAP_EDGES_NS)))
    np.add.at(counts.T, row_of, rolled.e2e.T)
    edges = (*HEATMAP_EDGES_NS, None)
    return [
        HeatmapCell(int(rolled.keys[step]), HEATMAP_EDGES_NS[row], edges[row + 1], int(counts[step, row]))
        for step, row in zip(*(places.tolist() for places in np.nonzero(counts)), strict=True)
    ]


def _totals(rolled: Rolled, e2e: Histograms) -> list[Total]:
    """By key."""
    counts = (rolled.requests, rolled.errors, rolled.cancelled, rolled.unmeasured, rolled.newest_ns)
    columns = [column.tolist() for column in (*counts, e2e.quantiles(CUTS))]
    return [Total(*values) for values in zip(*columns, strict=True)]


def _ttft(rolled: Rolled) -> list[dict[str, tuple[int, Quantiles]]]:
    """By key, by definition: how many answered requests have a TTFT, and its quantiles."""
    by_key: list[dict[str, tuple[int, Quantiles]]] = [{} for _ in rolled.keys]
    for name, counts in rolled.ttft.items():
        histograms = Histograms.of(counts, rolled.first_bin)
        columns = histograms.sizes.tolist(), histograms.quantiles(LEVELS).tolist()
        for of_key, size, quantiles in zip(by_key, *columns, strict=True):
            if size:
                of_key[name] = size, ms(quantiles)
    return by_key


def _classes(rolled: Rolled, e2e: Histograms) -> list[Sums]:
    """By key, by rank of E2E, where the exact figures go by value."""
    last = e2e.sizes - 1
    low, median, high = np.ceil(0.4 * last), np.floor(0.5 * last) + 1, np.floor(0.6 * last) + 1
    high = np.maximum(high, median)
    edges = {"below": (0 * last, low), "middle": (low, median), "both": (median, high), "above": (high, last + 1.0)}
    ranges = np.stack([np.stack(ranks, axis=1) for ranks in edges.values()], axis=1)
    counts, sums = parts_between(e2e, rolled.bands, ranges)
    return [
        {name: (count, parts) for name, count, parts in zip(edges, *of_key, strict=True) if count}
        for of_key in zip(counts.tolist(), sums.tolist(), strict=True)
    ]


def _means_of_bands(rolled: Rolled, e2e: Histograms) -> list[list[float]]:
    """By key: by band of ranks, both ends included, then by part: mean ns of its requests. They add up to the mean E2E there."""
    sizes = e2e.sizes[:, None]
    low, high = (np.floor(edge * sizes) for edge in np.transpose(list(BANDS.values())))
    ranges = np.stack([low, np.minimum(high + 1, sizes)], axis=2)
    _, sums = parts_between(e2e, rolled.bands, ranges)
    whole = sums.sum(axis=2)
    scales = np.divide(e2e.means(ranges), whole, out=np.zeros(whole.shape), where=whole > 0)
    means: list[list[float]] = (sums * scales[:, :, None]).reshape(len(sums), -1).tolist()
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
