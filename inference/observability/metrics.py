"""Counts requests and writes the metrics page. A request only changes numbers in dictionaries and lists; series are made
for each scrape.
"""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from inference.observability.spans import Trace, now_ns

TEXT = "text/plain; version=0.0.4; charset=utf-8"
EDGES_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper edges of the latency buckets, seconds: from a cache hit to a long answer."""


Bucket = tuple[str, float] | tuple[str, float, Exemplar]


class _Histogram:
    __slots__ = ("counts", "newest", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_S) + 1)
        self.newest: list[tuple[float, Trace] | None] = [None] * (len(EDGES_S) + 1)  # of each bucket
        self.total = 0.0

    def observe(self, seconds: float, trace: Trace) -> None:
        bucket = bisect_left(EDGES_S, seconds)
        self.counts[bucket] += 1
        self.newest[bucket] = seconds, trace
        self.total += seconds

    def buckets(self) -> list[Bucket]:
        """The buckets. Each has its newest request as exemplar."""
        out: list[Bucket] = []
        below = 0
        for edge, number, newest in zip((*map(str, EDGES_S), "+Inf"), self.counts, self.newest, strict=True):
            below += number
            out.append((edge, float(below), _exemplar(*newest)) if newest else (edge, float(below)))
        return out


def _exemplar(seconds: float, trace: Trace) -> Exemplar:
    ids = {"trace_id": trace.context.trace_id.hex(), "span_id": trace.id.hex()}
    return Exemplar(ids, seconds, time.time() - (now_ns() - trace.end_ns) / 1e9)


class Metrics(Collector):
    """`gauges` is called for each scrape. It gives name, help, label names, and values by labels."""

    def __init__(self) -> None:
        self.gauges: Callable[[], Iterable[tuple[str, str, tuple[str, ...], dict[tuple[str, ...], float]]]] = tuple
        self.counters: Callable[[], Iterable[tuple[str, str, float]]] = tuple
        self._requests: defaultdict[tuple[str, str, str, str, str], int] = defaultdict(int)
        self._duration: defaultdict[tuple[str, str], _Histogram] = defaultdict(_Histogram)
        self._ttft: defaultdict[tuple[str, str], _Histogram] = defaultdict(_Histogram)
        self._tokens: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def observe(self, trace: Trace) -> None:
        self._requests[trace.model, trace.tier, trace.status, trace.outcome, trace.error_stage] += 1
        if trace.status == "ok":
            key = (trace.model, trace.outcome)
            self._duration[key].observe((trace.end_ns - trace.start_ns) / 1e9, trace)
            if trace.ttft_ns >= 0:
                self._ttft[key].observe(trace.ttft_ns / 1e9, trace)
            self._tokens[trace.model, "input"] += trace.input_tokens
            self._tokens[trace.model, "output"] += trace.output_tokens

    def render(self, accept: bytes) -> tuple[bytes, bytes]:
        """The page and its content type, in the format that the scraper accepts."""
        if b"application/openmetrics-text" in accept:
            return generate_openmetrics(self._registry), OPENMETRICS.encode()  # type: ignore[no-untyped-call]
        return generate_latest(self._registry), TEXT.encode()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        names = ["model", "tier", "status", "cache", "error_stage"]
        requests = CounterMetricFamily("weir_gateway_requests", "Requests that have ended.", labels=names)
        for request_labels, number in self._requests.items():
            requests.add_metric(request_labels, number)
        yield requests
        tokens = CounterMetricFamily(
            "weir_gateway_tokens", "Tokens of answered requests.", labels=["model", "direction"]
        )
        for token_labels, number in self._tokens.items():
            tokens.add_metric(token_labels, number)
        yield tokens
        for name, text, histograms in (
            (
                "weir_gateway_request_duration_seconds",
                "Last byte read to last byte written, of answered requests.",
                self._duration,
            ),
            (
                "weir_gateway_time_to_first_token_seconds",
                "Last byte read to first token written, of streamed answers.",
                self._ttft,
            ),
        ):
            family = HistogramMetricFamily(name, text, labels=["model", "cache"])
            for labels, histogram in histograms.items():
                family.add_metric(labels, histogram.buckets(), histogram.total)
            yield family
        for name, text, value in self.counters():
            yield CounterMetricFamily(name, text, value=value)
        for name, text, label_names, values in self.gauges():
            gauge = GaugeMetricFamily(name, text, labels=label_names)
            for gauge_labels, value in values.items():
                gauge.add_metric(gauge_labels, value)
            yield gauge
