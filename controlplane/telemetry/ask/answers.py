"""Questions put to the store of this process. Raises StoreUnavailable and StoreInputError as the store does."""

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from django.conf import settings

from controlplane.telemetry.ask.errors import BadQuestion
from controlplane.telemetry.ask.question import DIMENSIONS, Question
from controlplane.telemetry.ask.slow import Slow
from controlplane.telemetry.explain import Explanation
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.ledger.segments import Segment, segments
from controlplane.telemetry.spans import Span
from controlplane.telemetry.store import Store, StoreInputError
from controlplane.telemetry.store.export import Format
from controlplane.telemetry.store.ranked import Asked, Known
from controlplane.telemetry.store.types import (
    Dimension,
    Group,
    Health,
    HeatmapCell,
    LatencyPoint,
    LatencyReport,
    Order,
    Region,
    RequestPage,
    Totals,
    Window,
)

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE = 8
"""Questions that are asked beside each other, by all pages of this process."""
MOST_EXPORTED = 2_000_000
"""Rows of one export: about half a gigabyte of CSV. More is refused, rather than cut off unnoticed."""


@functools.cache
def store() -> Store:
    """Connects at first use; safe to share between threads."""
    return Store(settings.CONFIG.store_dsn, pool=2 * AT_ONCE)  # some questions are two queries beside each other


_asking = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ask")


def beside(ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
    """Ask one of these beside the caller's own: a page waits for the slowest of its questions, not for their sum.

    Not the store's own `beside`, in whose lanes each of them puts queries: those who wait there for others could fill it."""
    return _asking.submit(ask, *arguments, **named)


@dataclass(frozen=True, slots=True)
class Trace:
    """`rows`: the requests in it, as the store has them."""

    spans: list[Span]
    rows: list[LedgerRow]

    def segments(self, row: LedgerRow | None) -> list[Segment]:
        """The critical path of one of the rows."""
        return segments(self.spans, row.request_id) if row else []


def known(question: Question) -> Known | None:
    """What a report, a series and groups of the same question have in common, to be read once; None where that is nothing."""
    return store().known(question.range.window, question.filters)


def report(question: Question, known: Asked = "not asked") -> LatencyReport:
    return store().latency(question.range.window, question.filters, known)


def totals(question: Question) -> Totals:
    return store().totals(question.range.window, question.filters)


def groups(question: Question, dimension: Dimension, known: Asked = "not asked") -> dict[str, Group]:
    """The most frequent value first."""
    return store().groups(question.range.window, question.filters, dimension, known)


def report_by(question: Question, dimension: Dimension) -> dict[str, LatencyReport]:
    """The same with the quantiles of every stage."""
    return dict(store().latency_by(question.range.window, question.filters, dimension))


def series(question: Question, step_ns: int, known: Asked = "not asked") -> list[LatencyPoint]:
    """`step_ns` is a whole number of seconds."""
    return store().latency_series(question.range.window, question.filters, step_ns // 1_000_000_000, known)


def explained(question: Question, slow: Slow, limit: int = 10) -> tuple[Region, Explanation]:
    """What sets the slow requests apart from the rest of the question's, and which ones they were taken to be."""
    window, filters = question.range.window, question.filters
    region = slow.region or store().slowest(window, filters, int(slow.above[1:]) / 100)
    return region, store().explain(window, filters, region, limit)


def heatmap(question: Question, step_ns: int) -> list[HeatmapCell]:
    """`step_ns` is a whole number of seconds."""
    return store().heatmap(question.range.window, question.filters, step_ns // 1_000_000_000)


def requests(
    question: Question,
    order: Order,
    limit: int,
    cursor: str | None = None,
    min_e2e_ns: int = 0,
    max_e2e_ns: int | None = None,
) -> RequestPage:
    """A page of rows. Raises BadQuestion for a cursor that is not of this order."""
    try:
        return store().requests(question.range.window, question.filters, order, limit, cursor, min_e2e_ns, max_e2e_ns)
    except StoreInputError as error:
        raise BadQuestion("cursor", cursor or "", str(error), "Leave it out to begin at the first page") from None


def export(question: Question, form: Format) -> Iterator[bytes]:
    """All rows as pieces of one file. Raises BadQuestion where there are more than MOST_EXPORTED."""
    window, filters = question.range.window, question.filters
    count = store().count(window, filters)
    if count > MOST_EXPORTED:
        reason = f"has {count:,} requests, more than the {MOST_EXPORTED:,} of one export"
        raise BadQuestion("from", question.range.from_text, reason, "Ask for a shorter range, or filter")
    return store().export(window, filters, form)


def trace(trace_id: str) -> Trace | None:
    """Of 32 hex digits; None where there is neither a span nor a request."""
    spans, rows = store().traced(trace_id)
    return Trace(spans, rows) if spans or rows else None


def values(window: Window, dimensions: Sequence[Dimension] = DIMENSIONS) -> dict[Dimension, list[str]]:
    """What each filter may choose from in this window, the most frequent first."""
    asked = {dimension: beside(store().values, window, dimension) for dimension in dimensions}
    return {dimension: found.result() for dimension, found in asked.items()}


def health(window: Window, dimension: Dimension) -> dict[str, Health]:
    return {found.value: found for found in store().health(window, dimension)}


def newest_ns() -> int | None:
    return store().newest()
