"""Counts observations of stored histograms. A threshold can be judged only where a bucket ends."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from django.conf import settings

from controlplane.fleet.models import Pool
from controlplane.slo.core.count_plan import GRID_S, Block
from controlplane.slo.core.sli import Histogram
from controlplane.slo.core.windows import DAY_S, HOUR_S
from controlplane.telemetry.core.metric_types import Matcher, SampleSeries
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store, StoreUnavailableError

LOOK_BACK_S = 300
"""How far before the window a counter's samples are read, s."""
MAX_GAP_S = DAY_S
"""How long no sample may have come of a counter that goes on, s."""
MAX_UNSEEN_S = HOUR_S
"""How long before its first sample a sender may have begun, s, so that all that it has counted is new."""
MAX_CHECK_S = 2.0


def refusal(indicator: Histogram, edges: Sequence[float]) -> str:
    """Why the indicator cannot be judged from buckets with these upper bounds; empty where it can."""
    finite = sorted(edge for edge in edges if math.isfinite(edge))
    if not finite:
        labels = ", ".join(f"{name}={value!r}" for name, value in indicator.labels.items())
        return (
            f"metric={indicator.metric!r} has no buckets in the store{f' with {labels}' if labels else ''}: "
            "check its name (without _bucket) and labels, and that it is scraped"
        )
    if indicator.threshold in finite:
        return ""
    below = [edge for edge in finite if edge < indicator.threshold]
    above = [edge for edge in finite if edge > indicator.threshold]
    near = " or ".join(f"{edge:g}" for edge in (*below[-1:], *above[:1]))
    return (
        f"metric_threshold={indicator.threshold:g} is not a bound of {indicator.metric}'s buckets, so what lies between its "
        f"neighbours cannot be separated: use {near}"
    )


def known_edges(store: Store, indicator: Histogram) -> list[float]:
    """Upper bounds that the store has, ascending, with infinity. Raises StoreUnavailableError."""
    return sorted({_edge(info.labels) for info in store.metrics.series(_name(indicator), _matchers(indicator))})


def check_edges(indicator: Histogram) -> None:
    """Raises ValueError where the buckets in the store cannot judge the indicator. While the store is away, or takes longer than
    MAX_CHECK_S, nothing is refused: others may wait for the caller's transaction.
    """
    if not settings.CONFIG.store_dsn:
        return
    store = answers.store()
    with suppress(StoreUnavailableError, TimeoutError):
        edges = store.submit_query(known_edges, store, indicator).result(MAX_CHECK_S)
        if reason := refusal(indicator, edges):
            raise ValueError(reason)


class Grown(NamedTuple):
    """Bad and total observations by step of GRID_S, and why they say nothing of now, or not all, else empty: where no replica runs whose
    observations they are, of which pools.
    """

    block: Block
    uncertain: str = ""
    idle: tuple[str, ...] = ()


def grown(store: Store, indicator: Histogram, from_s: int, to_s: int) -> Grown:
    """Each observation at the time of the sample that first shows it. Those in a bucket that the threshold divides are in neither number.

    Raises ValueError where the threshold is not a bound, StoreUnavailableError and StoreError.
    """
    stored = store.metrics.series(_name(indicator), _matchers(indicator))
    if reason := refusal(indicator, [_edge(info.labels) for info in stored]):
        raise ValueError(reason)
    texts = {info.labels["le"] for info in stored if _edge(info.labels) in (indicator.threshold, math.inf)}
    wanted = Matcher("le", "=~", "|".join(re.escape(text) for text in sorted(texts)))

    def read(*bounds: Matcher) -> list[_Counted]:
        window = Window(from_s * 10**9 - 1, to_s * 10**9 - 1)
        matchers = [*_matchers(indicator), *bounds]
        samples = store.metrics.samples(_name(indicator), window, matchers, before_ns=LOOK_BACK_S * 10**9)
        return list(_sources(_continued(store, samples, window.from_ns), indicator.threshold))

    sources = read(wanted)
    if not all(source.known.all() for source in sources):
        sources = read()  # where no observation lies between the bounds beside the threshold, they say as much
    counts = np.zeros((2, (to_s - from_s) // GRID_S))
    for source in sources:
        _add(counts, source, from_s)
    good, total = np.clip(np.rint(counts), 0, np.iinfo(np.int32).max)
    block = np.stack([np.clip(total - good, 0, None), total]).astype(np.int32)
    if not any(source.lasts for source in sources):
        return Grown(block, *_unsampled(indicator, {info.labels.get("pool", "") for info in stored}))
    divided = [source.labels for source in sources if not source.known[source.times >= from_s * 10**9].all()]
    return Grown(
        block,
        f"no bucket of {indicator.metric} with {divided[0]} ends at {indicator.threshold:g}" if divided else "",
    )


def _unsampled(indicator: Histogram, pools: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Why no bucket has a sample now, which replicas of these pools have had (an empty one is not known), and those without a replica."""
    here = Pool.objects.filter(name__in=pools).order_by("name") if "" not in pools else Pool.objects.none()
    names = list(here.values_list("name", flat=True))
    if not names or here.filter(replicas__enabled=True).exists():
        return f"no bucket of {indicator.metric} has a sample now", ()
    return f"no replica of {' and '.join(names)} runs, so nothing is measured", tuple(names)


class _Counted(NamedTuple):
    """What one sender has counted at some times, in order: good and total (axis 0). `known`: whether it says how many are good."""

    labels: str
    times: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    known: npt.NDArray[np.bool_]
    delta: bool
    lasts: bool  # it has not ended


def _continued(store: Store, samples: Sequence[SampleSeries], from_ns: int) -> list[SampleSeries]:
    """Each with its last sample before the window, also where that came long before it: counters go on through a gap."""
    anew = [
        each.info
        for each in samples
        if not each.info.delta and not np.isfinite(each.values[each.times <= from_ns]).any()
    ]
    gap = Window(from_ns - MAX_GAP_S * 10**9, from_ns)
    last = {each.info.series: each for each in store.metrics.newest_in(anew, gap)}
    return [
        SampleSeries(
            each.info,
            np.append(before.time_ns, each.times),
            np.append(before.value, each.values),
            np.append(0, each.starts),
        )
        if (before := last.get(each.info.series))
        else each
        for each in samples
    ]


def _sources(samples: Sequence[SampleSeries], threshold: float) -> Iterator[_Counted]:
    by_source: dict[tuple[tuple[tuple[str, str], ...], bool], list[SampleSeries]] = {}
    for series in samples:
        labels = tuple(sorted((name, value) for name, value in series.info.labels.items() if name != "le"))
        by_source.setdefault((labels, series.info.delta), []).append(series)
    for (labels, delta), bounds in by_source.items():
        bounds.sort(key=lambda series: _edge(series.info.labels))
        whole = bounds[-1]
        if not math.isinf(_edge(whole.info.labels)):
            continue  # all it sent is not known
        usable = np.isfinite(whole.values)  # a stale marker is not, nor is what nobody can have counted
        times, total = whole.times[usable], whole.values[usable]
        low, high = np.zeros(len(times)), total
        for series in bounds:
            if _edge(series.info.labels) <= threshold:
                low = _at(series, times, low)
        for series in reversed(bounds):
            if _edge(series.info.labels) >= threshold:
                high = _at(series, times, high)
        names = ", ".join(f"{name}={value}" for name, value in labels)
        yield _Counted(names, times, whole.starts[usable], np.stack([low, total]), low == high, delta, bool(usable[-1]))


def _at(
    series: SampleSeries, times: npt.NDArray[np.int64], otherwise: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The series' values at these times, and `otherwise` where it has none."""
    places = np.minimum(np.searchsorted(series.times, times), len(series.times) - 1)
    values = np.where(series.times[places] == times, series.values[places], np.nan)
    return np.where(np.isfinite(values), values, otherwise)


def _add(steps: npt.NDArray[np.float64], source: _Counted, from_s: int) -> None:
    """Add the growth of a sender's counts to the steps. After a reset, and of a new sender, the growth is the whole value."""
    known = source.known
    times, starts, values = source.times[known], source.starts[known], source.counts[:, known]
    if not len(times):
        return
    growth = np.diff(values, prepend=values[:, :1])
    began = (growth[0] < 0) | (growth[1] < 0)
    began[1:] |= (starts[1:] > starts[:-1]) & (starts[1:] >= times[:-1])
    growth = np.where(began, values, growth)
    if source.delta:
        growth = values
    elif starts[0] > 0 and times[0] - starts[0] <= MAX_UNSEEN_S * 10**9:
        growth[:, 0] = values[:, 0]
    step = (times // 10**9 - from_s) // GRID_S
    inside = (step >= 0) & (step < steps.shape[1])
    for row in range(2):
        np.add.at(steps[row], step[inside], growth[row, inside])


def _name(indicator: Histogram) -> str:
    return f"{indicator.metric}_bucket"


def _matchers(indicator: Histogram) -> list[Matcher]:
    return [Matcher(name, "=", value) for name, value in sorted(indicator.labels.items())]


def _edge(labels: Mapping[str, str]) -> float:
    try:
        return float(labels["le"])
    except (KeyError, ValueError):
        return math.nan
