"""Prometheus' text format, by prometheus-client's parser, as sums that a reading needs."""

from collections.abc import Callable, Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Labels = dict[str, str]


def samples(text: str) -> list[Sample]:
    """Every sample of the page. Raises ValueError where it is not in Prometheus' text format."""
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def total(found: Iterable[Sample], name: str, where: Callable[[Labels], bool] = lambda _: True) -> float | None:
    """The sum of `name` over the series whose labels pass `where`; None, which is not 0, where there is none."""
    values = [sample.value for sample in found if sample.name == name and where(sample.labels)]
    return sum(values) if values else None


def known(**figures: float | None) -> dict[str, float]:
    """The figures that were found."""
    return {name: value for name, value in figures.items() if value is not None}
