"""Holds the figures of the latency page to those that numpy finds on the same rows."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from controlplane.telemetry.core.query_types import Dimension, LatencyReport, Quantiles
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store.read.figures import BANDS
from controlplane.telemetry.store.write.arrow_columns import PARTS
from tests.support.telemetry.samples import answered


def part(rows: Sequence[LedgerRow], name: str) -> np.ndarray:
    return np.array([row.unattributed_ns if name == "unattributed" else row.stages[name] for row in rows]) / 1e6


def choices(rows: Sequence[LedgerRow], *dimensions: Dimension) -> dict[Dimension, list[str]]:
    """What filters offer."""
    counts = {
        name: Counter(getattr(row, "cache_outcome" if name == "cache" else name) for row in rows) for name in dimensions
    }
    return {name: sorted(filter(None, of), key=lambda value, of=of: (-of[value], value)) for name, of in counts.items()}


def assert_quantiles(found: Quantiles | None, values_ms: np.ndarray) -> None:
    assert found is not None
    assert [found.p50, found.p95, found.p99] == pytest.approx(
        np.quantile(values_ms, [0.5, 0.95, 0.99], method="linear")
    )


def assert_report(report: LatencyReport, rows: Sequence[LedgerRow]) -> None:
    assert report.requests == len(rows)
    assert report.errors == sum(row.status in ("error", "rejected") for row in rows)
    assert report.cancelled == sum(row.status == "cancelled" for row in rows)
    assert report.newest_ns == max(row.end_ns for row in rows)
    rows = answered(rows)
    assert report.unmeasured == sum(row.unmeasured for row in rows)
    assert report.answered == len(rows)
    if not rows:
        assert (report.e2e_ms, report.ttft_ms, report.stages) == (None, {}, {})
        return
    e2e = np.array([row.e2e_ns for row in rows]) / 1e6
    assert_quantiles(report.e2e_ms, e2e)
    for definition, count in report.ttft_count.items():
        values = [row.ttft_ns for row in rows if row.ttft_definition == definition and row.ttft_ns is not None]
        assert count == len(values)
        assert_quantiles(report.ttft_ms[definition], np.array(values) / 1e6)
    low, median, high = np.quantile(e2e, [0.4, 0.5, 0.6])
    above, middle = e2e > median, (e2e >= low) & (e2e <= high)
    if not middle.any():
        middle[:] = True
    for name, figures in report.stages.items():
        spent = part(rows, name)
        assert [figures.p50_ms, figures.p95_ms, figures.p99_ms] == pytest.approx(np.quantile(spent, [0.5, 0.95, 0.99]))
        assert figures.mean_ms == pytest.approx(spent.mean())
        assert figures.share == pytest.approx(spent.sum() / e2e.sum())
        if above.any():
            excess = e2e[above].mean() - e2e[middle].mean()
            assert figures.share_above_median == pytest.approx((spent[above].mean() - spent[middle].mean()) / excess)
        else:
            assert figures.share_above_median == 0
    assert sum(figures.share for figures in report.stages.values()) == pytest.approx(1)


def assert_stacks(stacks: dict[str, dict[str, float]], rows: Sequence[LedgerRow]) -> None:
    rows = answered(rows)
    if not rows:
        assert stacks == {}
        return
    ordered = np.sort([row.e2e_ns for row in rows])
    for band, (low, high) in BANDS.items():
        first, last = ordered[int(low * len(rows))], ordered[int(high * len(rows))]
        chosen = [row for row in rows if first <= row.e2e_ns <= last]
        assert chosen
        for name in PARTS:
            assert stacks[band][name] == pytest.approx(part(chosen, name).mean())
        assert sum(stacks[band].values()) == pytest.approx(np.mean([row.e2e_ns for row in chosen]) / 1e6)
