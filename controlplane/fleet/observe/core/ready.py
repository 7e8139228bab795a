"""Reads /readyz and /metrics of one of our own processes (gateway, telemetry)."""

import json
import math
from dataclasses import dataclass

from controlplane.core.formatting import shortened
from controlplane.fleet.observe.core.prometheus_text import Labels, Page, families, known, total
from controlplane.fleet.observe.core.reading import NOT_UNDERSTOOD, Reading

OK = 200
MAX_REASON_CHARS = 200
NO_FIGURES = "no figures"


@dataclass(frozen=True, slots=True)
class Count:
    """A counter of the process: `metric` summed over the series with one of `statuses`, or over all of them."""

    name: str
    metric: str
    statuses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fault:
    """The process serves, but not as it should, while a series of `metric` shows `value`.

    `text` may name its labels, and by `{0}` and so on other metrics: the sums of their series with these labels.
    """

    metric: str
    value: float
    text: str
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """The metrics of a process that become figures, and the faults that they show."""

    counts: tuple[Count, ...]
    gauges: tuple[tuple[str, str], ...] = ()  # figure, metric
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()  # shown too, though nothing is wrong


CACHE_FAULTS = (
    Fault("weir_gateway_cache_up", 0, "it serves without its cache: Redis does not answer it"),
    Fault("weir_gateway_cache_writable", 0, "it keeps no new answers: Redis takes no writes, /readyz says why"),
    Fault("weir_gateway_semantic_up", 0, "similar requests are not looked up: /readyz says why"),
)
"""Of a gateway. They name no labels, so that their texts can be looked for in what was observed."""
SPANS_REFUSED = Fault("weir_gateway_spans_refused", 1, "telemetry takes none of its spans ({reason})")
SIMILAR_WRONG = Fault(
    "weir_gateway_semantic_broke",
    1,
    "answers for similar requests of {model} have become wrong: none is given until there is new evidence, /cache has examples",
)


def reading(ready_status: int, ready_text: str, metrics_status: int, metrics_text: str, names: Names) -> Reading:
    """A process that answers and is not ready is degraded. One that refuses its metrics is up, without figures.

    Raises ValueError where the metrics are not in Prometheus' text format.
    """
    unready = "" if ready_status == OK else _reason(ready_text) or f"/readyz answers {ready_status}"
    if metrics_status != OK:
        error = f"{unready}; " if unready else ""
        return Reading("degraded" if unready else "up", error=f"{error}/metrics answers {metrics_status}: {NO_FIGURES}")
    page = families(metrics_text)
    faults = [text for fault in names.faults for text in _texts(page, fault)]
    if unready:
        faults.insert(0, unready)
    counts = {
        count.name: total(page, count.metric, lambda labels, of=count.statuses: not of or labels.get("status") in of)  # type: ignore[misc]
        for count in names.counts
    }
    return Reading(
        "degraded" if faults else "up",
        figures=known(**{figure: total(page, metric) for figure, metric in names.gauges}),
        counters=known(**counts),
        error="; ".join([*faults, *(text for note in names.notes for text in _texts(page, note))]),
    )


def says_all(error: str) -> bool:
    """Whether a process has no fault that its observation does not name: its metrics were read, and the text was not cut."""
    return NOT_UNDERSTOOD not in error and not error.endswith((NO_FIGURES, "…"))


def _texts(page: Page, fault: Fault) -> list[str]:
    """The fault's text for each series that shows it."""
    family = page.get(fault.metric)
    samples = family.samples if family is not None else ()
    return [
        fault.text.format(*(_beside(page, metric, sample.labels) for metric in fault.figures), **sample.labels)
        for sample in samples
        if sample.value == fault.value
    ]


def _beside(page: Page, metric: str, labels: Labels) -> float:
    """The sum of the metric's series that have these labels; NaN where the page does not have the metric."""
    beside = total(page, metric, lambda others: labels.items() <= others.items())
    return math.nan if beside is None else beside


def _reason(text: str) -> str:
    """The `reason` in the body of a 503, or the whole body."""
    try:
        body = json.loads(text)
    except ValueError:
        return shortened(text.strip(), MAX_REASON_CHARS)
    if not isinstance(body, dict):
        return ""
    reason = body.get("reason") or ", ".join(
        f"{key}: {value}" for key, value in body.items() if value not in (True, False)
    )
    return shortened(str(reason), MAX_REASON_CHARS)
