"""Sums series of a page in Prometheus' text format."""

from collections.abc import Callable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

Labels = dict[str, str]
Page = Mapping[str, Metric]
"""Metric families by name; a counter's is without `_total`."""


def families(text: str) -> Page:
    """The page's families. Raises ValueError where it is not in Prometheus' text format."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def total(page: Page, name: str, where: Callable[[Labels], bool] = lambda _: True) -> float | None:
    """The sum of `name` over the series whose labels pass `where`.

    0 for a family without such series, which has counted nothing yet. None for a family that is not on the page.
    """
    family = page.get(name) or page.get(name.removesuffix("_total"))
    if family is None:
        return None
    names = (name, f"{name}_total")  # the parser adds it to a counter that comes without, as Triton's do
    return float(sum(sample.value for sample in family.samples if sample.name in names and where(sample.labels)))


def known(**figures: float | None) -> dict[str, float]:
    """The figures that are not None."""
    return {name: value for name, value in figures.items() if value is not None}
