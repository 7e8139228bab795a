"""Answers questions about the cache: what it answered, and what the gateways say of similar requests."""

import math
import re
from collections import Counter
from collections.abc import Iterable

from controlplane.telemetry.core.cache_rows import CachePoint, CacheRow, CacheStep, Counted, Similar, Written
from controlplane.telemetry.core.metric_types import Newest
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.timerange import SECOND_NS

LOOKUPS, INPUTS = "weir_gateway_semantic_lookups_total", "weir_gateway_cache_inputs_total"
_WRITTEN = "weir_gateway_cache_written_bytes_total"
_EVIDENCE = "weir_gateway_semantic_"
_NEWS_NS = 15 * 60 * SECOND_NS
"""Gateways drop a route that nobody used for so long."""
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_Route = tuple[str, str, str, str]


def rows(question: Question) -> list[CacheRow]:
    return answers.store().cached.rows(question.range.window, question.filters)


def series(question: Question, step_ns: int) -> list[CachePoint]:
    return answers.store().cached.series(question.range.window, question.filters, step_ns // SECOND_NS)


def steps(window: Window) -> list[CacheStep]:
    return answers.store().cached.steps(window)


def counted(window: Window) -> dict[str, list[Counted]]:
    """By the metric: what came of look-ups of similar requests, and of inputs of lists, over all gateways."""
    growth: dict[str, Counter[tuple[str, str]]] = {LOOKUPS: Counter(), INPUTS: Counter()}
    for it in answers.store().causes.counter_growth((LOOKUPS, INPUTS), window):
        growth[it.metric][it.labels.get("model", ""), it.labels.get("result", "")] += round(it.value)
    return {
        metric: [Counted(*key, count) for key, count in sorted(counts.items()) if count]
        for metric, counts in growth.items()
    }


def written(window: Window) -> list[Written]:
    """By model and routing rule, the largest first, over all gateways. Of others it is not known."""
    sizes: Counter[tuple[str, str]] = Counter()
    for it in answers.store().causes.counter_growth((_WRITTEN,), window):
        sizes[it.labels.get("model", ""), it.labels.get("rule", "")] += round(it.value)
    return [Written(*key, size) for key, size in sizes.most_common() if size]


def similar(window: Window) -> list[Similar]:
    """Each route that was in use at the end of the window. Where gateways differ, the one that knows least counts."""
    store, last = answers.store(), Window(max(window.from_ns, window.to_ns - _NEWS_NS), window.to_ns)

    def newest(name: str) -> dict[_Route, list[float]]:
        return _by_route(store.metrics.newest_of(_EVIDENCE + name, last))

    def examples() -> dict[_Route, set[str]]:
        ids: dict[_Route, set[str]] = {}
        for each in store.metrics.newest_of(_EVIDENCE + "wrong_request", last):
            request = each.info.labels.get("request", "")
            if not each.ended and _TRACE_ID.fullmatch(request):
                ids.setdefault(_route(each), set()).add(request)
        return ids

    labels = newest("labels")
    if not labels:
        return []
    wanted, threshold, broke, changes = map(newest, ("labels_wanted", "threshold", "broke", "changes"))
    certified, wrong, marks = map(newest, ("certified", "wrong", "marks"))
    wrong_ones = examples() if any(map(max, broke.values())) else {}
    return [
        Similar(
            *route,
            labels=round(min(labels[route])),
            labels_wanted=round(max(wanted.get(route, [0]))),
            wrong=round(max(wrong[route])) if route in wrong else None,
            marks=round(max(marks[route])) if route in marks else None,
            threshold=max(threshold[route]) if route in threshold and min(certified.get(route, [0])) else None,
            broke=bool(max(broke.get(route, [0]))),
            changes=round(max(changes.get(route, [0]))),
            examples=tuple(sorted(wrong_ones.get(route, ()))),
        )
        for route in sorted(labels)
    ]


def _by_route(newest: Iterable[Newest]) -> dict[_Route, list[float]]:
    values: dict[_Route, list[float]] = {}
    for each in newest:
        if not each.ended and math.isfinite(each.value):
            values.setdefault(_route(each), []).append(each.value)
    return values


def _route(newest: Newest) -> _Route:
    labels = newest.info.labels
    return labels.get("model", ""), labels.get("route", ""), labels.get("words", ""), labels.get("judge", "")
