"""Metric samples written straight into a store."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.telemetry.metrics.admission import Admission
from controlplane.telemetry.metrics.batch import Builder, Scrape
from controlplane.telemetry.metrics.sample_columns import sample_tables
from controlplane.telemetry.store import Store

from .samples import S

YEARS_NS = 10 * 366 * 86_400 * S


Line = tuple[str, Sequence[tuple[int, float]], Mapping[str, str]]
"""A metric, the (time in ns, value) of one of its series, and that series' labels."""


def write(
    store: Store,
    metric: str,
    points: Sequence[tuple[int, float]],
    kind: str = "gauge",
    *,
    delta: bool = False,
    unit: str = "",
    **labels: str,
) -> None:
    """`points` are (time in ns, value) of one series."""
    write_all(store, [(metric, points, labels)], kind, delta=delta, unit=unit)


def write_all(store: Store, lines: Iterable[Line], kind: str = "gauge", *, delta: bool = False, unit: str = "") -> None:
    """Several series of one kind, in one insert."""
    builder = _builder()
    for metric, points, labels in lines:
        series = builder.series(metric, labels.items(), kind=kind, delta=delta, unit=unit)
        assert series is not None
        assert all(builder.add(series, time_ns, value) for time_ns, value in points)
    store.writer.insert_metric_columns(**sample_tables([builder.batch()]))


def scraped(store: Store, scrapes: Sequence[Scrape]) -> None:
    builder = _builder()
    builder.scrapes.extend(scrapes)
    store.writer.insert_metric_columns(**sample_tables([builder.batch()]))


def _builder() -> Builder:
    return Builder(Admission(1_000_000), YEARS_NS)
