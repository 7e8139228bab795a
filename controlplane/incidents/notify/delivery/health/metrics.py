"""Exports delivery's figures as metrics of the web process, read at each scrape."""

from collections.abc import Iterable, Iterator

from django.db import DatabaseError
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controlplane.incidents.notify.delivery.health.health import Health, figures, judge


class Deliveries(Collector):
    def describe(self) -> Iterable[Metric]:
        """Nothing: only a scrape queries the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Nothing where the database does not answer: a gap instead of a zero."""
        try:
            yield from families(judge(figures(timezone.now())))
        except DatabaseError:
            return


def families(health: Health) -> Iterator[Metric]:
    figures = health.figures
    gauges = (
        ("weir_pages_pending", "Pages that are not delivered yet.", figures.pending),
        (
            "weir_pages_oldest_pending_seconds",
            "Age of the oldest of them; 0 without any.",
            figures.oldest_pending_age_s or 0,
        ),
        ("weir_pages_refused_1d", "Pages of the last day that were refused.", figures.refused_1d),
        ("weir_pages_delivered_1d", "Pages of the last day that were delivered.", figures.delivered_1d),
        (
            "weir_pages_within_30s_ratio_1d",
            "Share of the last day's pages delivered in 30 s.",
            health.share_within_30s_1d,
        ),
        ("weir_pages_sender_age_seconds", "Since the sender was last seen.", figures.sender_age_s),
    )
    for name, text, value in gauges:
        if value is not None:
            yield GaugeMetricFamily(name, text, value=value)


def register() -> None:
    REGISTRY.register(Deliveries())
