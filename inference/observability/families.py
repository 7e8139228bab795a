"""Metrics of several processes as one page: counters and histograms are added up, gauges by what they mean."""

from collections.abc import Callable, Iterable

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

TEXT = "text/plain; version=0.0.4; charset=utf-8"

_COMBINED_BY_MIN = frozenset(
    (
        "process_max_fds",
        "process_start_time_seconds",
        "weir_gateway_cache_up",
        "weir_gateway_cache_writable",
        "weir_gateway_endpoints_version",
        "weir_gateway_issuer_up",
        "weir_gateway_overlay_version",
        "weir_gateway_policy_version",
        "weir_gateway_pool_replicas_up",
        "weir_gateway_replica_signals_age_seconds",
        "weir_gateway_replica_up",
        "weir_gateway_semantic_labels",
        "weir_gateway_semantic_certified",
        "weir_gateway_semantic_up",
    )
)
_COMBINED_BY_MAX = frozenset(
    (
        "weir_gateway_certificate_fault",
        "weir_gateway_connection_in_the_clear",
        "python_info",
        "weir_gateway_issuer_keys_age_seconds",
        "weir_gateway_limits_local",
        "weir_gateway_policy_fault",
        "weir_gateway_policy_stale",
        "weir_gateway_policy_unknown_fields",
        "weir_gateway_replica_detected",
        "weir_gateway_replica_draining",
        "weir_gateway_replica_kv_use",
        "weir_gateway_replica_running",
        "weir_gateway_replica_waiting",
        "weir_gateway_replica_warming",
        "weir_gateway_semantic_broke",
        "weir_gateway_spans_refused",
        "weir_gateway_semantic_changes",
        "weir_gateway_semantic_labels_wanted",
        "weir_gateway_semantic_threshold",
    )
)
"""Gauges that are the same in every process, or nearly: the worse value counts. All others are added up."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """`exemplar` is its labels, its value and its time in seconds."""

    name: str
    labels: dict[str, str]
    value: float
    exemplar: tuple[dict[str, str], float, float] | None = None


class Family(msgspec.Struct, frozen=True, array_like=True):
    """All samples of a metric. `kind` is prometheus_client's type of it."""

    name: str
    text: str
    kind: str
    samples: list[Sample]

    @property
    def lasts(self) -> bool:
        """Whether its values count what has happened, so that they must not shrink when a process ends."""
        return self.kind in ("counter", "histogram")


def families_of(metrics: Iterable[Metric]) -> list[Family]:
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [
                Sample(
                    sample.name,
                    dict(sample.labels),
                    float(sample.value),
                    (dict(sample.exemplar.labels), sample.exemplar.value, float(sample.exemplar.timestamp or 0.0))
                    if sample.exemplar
                    else None,
                )
                for sample in metric.samples
            ],
        )
        for metric in metrics
    ]


def merge(reports: Iterable[list[Family]]) -> list[Family]:
    """One report for several processes. Exemplars: the newest of each sample."""
    about: dict[str, Family] = {}
    merged: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], Sample]] = {}
    for report in reports:
        for family in report:
            about.setdefault(family.name, family)
            samples = merged.setdefault(family.name, {})
            add = _rule(family)
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                before = samples.get(key)
                if before is None:
                    samples[key] = sample
                    continue
                exemplar = max(before.exemplar, sample.exemplar, key=_age)
                samples[key] = Sample(sample.name, sample.labels, add((before.value, sample.value)), exemplar)
    return [
        Family(name, about[name].text, about[name].kind, list(samples.values())) for name, samples in merged.items()
    ]


def render(families: Iterable[Family], accept: bytes) -> tuple[bytes, bytes]:
    """The page and its content type, in the format that the scraper accepts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed([_metric(family) for family in families]))
    if b"application/openmetrics-text" in accept:
        return generate_openmetrics(registry), OPENMETRICS.encode()  # type: ignore[no-untyped-call]
    return generate_latest(registry), TEXT.encode()


class _Fixed(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self._metrics


def _rule(family: Family) -> Callable[[Iterable[float]], float]:
    if family.kind == "gauge" and family.name in _COMBINED_BY_MIN:
        return min
    if family.kind == "gauge" and family.name in _COMBINED_BY_MAX:
        return max
    return sum


def _age(exemplar: tuple[dict[str, str], float, float] | None) -> float:
    return exemplar[2] if exemplar else -1.0


def _metric(family: Family) -> Metric:
    metric = Metric(family.name, family.text, family.kind)
    for sample in family.samples:
        exemplar = Exemplar(*sample.exemplar) if sample.exemplar else None
        metric.add_sample(sample.name, sample.labels, sample.value, exemplar=exemplar)
    return metric
