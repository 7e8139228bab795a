"""Counts requests and writes the metrics page. A request only changes numbers in dictionaries and lists; series are made
for each scrape.
"""

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from inference.observability.families import Family, Sample, families_of
from inference.observability.spans import Trace, now_ns

EDGES_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper edges of the latency buckets, seconds: from a cache hit to a long answer."""
LAG_EVERY_S = 0.05
LAG_EDGES_S = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""How often the lag of the event loop is looked at, and the upper edges of its buckets, seconds."""

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


class LoopLag:
    """How late the event loop is: what one request does on it, all others wait for. `counts` are of the buckets, the last of what is
    above all edges; `total_s` is the sum.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(LAG_EDGES_S) + 1)
        self.total_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        assert self._loop is not None
        self._due_s = self._loop.time() + LAG_EVERY_S
        self._timer = self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        assert self._loop is not None
        late_s = max(0.0, self._loop.time() - self._due_s)
        self.counts[bisect_left(LAG_EDGES_S, late_s)] += 1
        self.total_s += late_s
        self._next()


@dataclass(slots=True)
class _ModelTally:
    """Requests for a model of a tier: `ModelSignals` says what each number counts."""

    arrived: int = 0
    answered: int = 0
    failed: int = 0
    shed: int = 0
    cached: int = 0
    degraded: int = 0


Labelled = tuple[str, str, tuple[str, ...], Mapping[Any, float]]
"""Name, help, names of labels, and values by labels."""


class Metrics(Collector):
    """`gauges` and `counters` are called for each scrape."""

    def __init__(self) -> None:
        self.gauges: Callable[[], Iterable[Labelled]] = tuple
        self.counters: Callable[[], Iterable[Labelled]] = tuple
        self.lag = LoopLag()
        self._requests: defaultdict[tuple[str, str, str, str, str], int] = defaultdict(int)
        self._duration: defaultdict[tuple[str, str], _Histogram] = defaultdict(_Histogram)
        self._ttft: defaultdict[tuple[str, str], _Histogram] = defaultdict(_Histogram)
        self._tokens: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._shed: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._tallies: defaultdict[tuple[str, str], _ModelTally] = defaultdict(_ModelTally)
        self._ended = 0
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._process = ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def arrived(self, model: str, tier: str) -> None:
        """A request for a model has come."""
        self._tallies[model, tier].arrived += 1

    def observe(self, trace: Trace) -> None:
        """A request has ended."""
        self._count(trace)
        self._requests[trace.model, trace.tier, trace.status, trace.outcome, trace.error_stage] += 1
        if trace.shed_reason:
            self._shed[trace.shed_reason, trace.tier] += 1
        if trace.status == "ok":
            key = (trace.model, trace.outcome)
            self._duration[key].observe((trace.end_ns - trace.start_ns) / 1e9, trace)
            if trace.ttft_ns >= 0:
                self._ttft[key].observe(trace.ttft_ns / 1e9, trace)
            self._tokens[trace.model, "input"] += max(0, trace.input_tokens)
            self._tokens[trace.model, "output"] += max(0, trace.output_tokens)

    def _count(self, trace: Trace) -> None:
        self._ended += 1
        tally = self._tallies.get((trace.model, trace.tier))
        if tally is None:  # it was refused before its model was known
            return
        if trace.status == "ok":
            tally.answered += 1
            tally.cached += trace.outcome in ("hit", "semantic")
        elif trace.shed_reason:
            tally.shed += 1
        elif trace.status == "error":
            tally.failed += 1
        if trace.degraded:
            tally.degraded += 1

    def tallies(self) -> dict[tuple[str, ...], float]:
        """Requests by model, tier and what became of them."""
        return {
            (*key, event): float(count)
            for key, tally in self._tallies.items()
            for event, count in sorted(asdict(tally).items())
        }

    def totals(self) -> list[Family]:
        """Requests that have ended, and what the process has used."""
        ended = Sample("weir_gateway_requests_total", {}, float(self._ended))
        return [Family("weir_gateway_requests", "", "counter", [ended]), *families_of(self._process.collect())]

    def families(self) -> list[Family]:
        """The metrics of this process."""
        return families_of(self._registry.collect())

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        names = ("model", "tier", "status", "cache", "error_stage")
        about_shed = "Requests refused so that others are served."
        yield from _series(
            CounterMetricFamily,
            [
                ("weir_gateway_requests", "Requests that have ended.", names, self._requests),
                ("weir_gateway_tokens", "Tokens of answered requests.", ("model", "direction"), self._tokens),
                ("weir_gateway_shed", about_shed, ("reason", "tier"), self._shed),
            ],
        )
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
        lag = HistogramMetricFamily(
            "weir_gateway_loop_lag_seconds",
            f"How late the event loop was, looked at every {1000 * LAG_EVERY_S:.0f} ms.",
        )
        below, buckets = 0, list[Bucket]()
        for edge, number in zip((*map(str, LAG_EDGES_S), "+Inf"), self.lag.counts, strict=True):
            below += number
            buckets.append((edge, float(below)))
        lag.add_metric([], buckets, self.lag.total_s)
        yield lag
        yield from _series(CounterMetricFamily, self.counters())
        yield from _series(GaugeMetricFamily, self.gauges())


def _series(kind: type[CounterMetricFamily | GaugeMetricFamily], given: Iterable[Labelled]) -> Iterator[Metric]:
    for name, text, label_names, values in given:
        family = kind(name, text, labels=label_names)
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family
