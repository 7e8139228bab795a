"""Answers questions out of this process's store. Every function raises the errors of the store."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from django.conf import settings

from controlplane.telemetry.core.query_types import (
    Cells,
    Dimension,
    Failure,
    Filters,
    Group,
    Health,
    HeatmapCell,
    LatencyPoint,
    LatencyReport,
    ModelCost,
    Order,
    Region,
    ReplicaHealth,
    Totals,
    Window,
)
from controlplane.telemetry.core.recorded import MIN_UNMEASURED_S, unrecorded, was_recorded
from controlplane.telemetry.core.spans import ROW_SPANS, Span
from controlplane.telemetry.explain.difference import Explanation
from controlplane.telemetry.ledger.path_segments import Segment, paths, segments
from controlplane.telemetry.ledger.row import LedgerRow, bucket_start
from controlplane.telemetry.query.core import timerange
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.question import DIMENSIONS, Question
from controlplane.telemetry.query.core.slow import Slow
from controlplane.telemetry.query.core.timerange import SECOND_NS
from controlplane.telemetry.store import Store, StoreInputError
from controlplane.telemetry.store.read.export import Format
from controlplane.telemetry.store.read.requests import MAX_REASONS, RequestPage
from controlplane.telemetry.store.read.retained import DIMENSIONS as ROLLED_DIMENSIONS
from controlplane.telemetry.store.read.retained import Kept, kept_step_s
from controlplane.telemetry.store.read.retained import rounded as rounded_window
from controlplane.telemetry.store.read.rollups import Rolled, RolledOrUnread

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE = 8
"""Queries that run at the same time, over all pages of this process."""
MAX_EXPORTED = 2_000_000
"""Rows of one export: about half a gigabyte of CSV. A larger export is refused, not cut off."""


@functools.cache
def store() -> Store:
    """Connects at first use; safe to share between threads."""
    return Store(settings.CONFIG.store_dsn, pool=2 * AT_ONCE)  # some questions run two queries at once


_threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="query")


def submit_query(query: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
    """Run a function of this module in a thread, so that a page waits for its slowest question and not for their sum.

    The store's own `submit_query` cannot serve here: these functions use its threads, and could fill them while they wait for each other.
    """
    return _threads.submit(query, *arguments, **named)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace's spans, at most the ROW_SPANS earliest, how many it has in all, and its ledger rows."""

    spans: list[Span]
    rows: list[LedgerRow]
    span_count: int

    def segments(self, row: LedgerRow | None) -> list[Segment]:
        """The critical path of `row`."""
        return segments(self.spans, row.request_id) if row else []

    def paths(self) -> dict[str, list[Segment]]:
        """The critical paths of all rows, by request id."""
        return paths(self.spans)


def step_ns(question: Question, most: int = 60) -> int:
    """The step of a chart of at most `most` points, ns: no shorter than what is kept of that time."""
    return timerange.step_ns(question.range.window, most, kept_s(question))


def kept_s(question: Question) -> int:
    """The shortest step, s, by which what was requested is still kept."""
    return kept_step_s(question.range.window, question.filters, int(time.time()), kept())


def kept() -> Kept:
    """From when on there are requests, and from when on rollups."""
    return store().latency.kept()


def rounded(question: Question) -> Question:
    """The question with the ends that it can be answered for: those of rollups, of a time whose requests are no longer kept.

    The texts of its range, and so its URL, stay.
    """
    window = rounded_window(question.range.window, question.filters, int(time.time()), kept())
    return question.with_range(replace(question.range, window=window))


def stored(question: Question) -> Question:
    """The question of those requests alone that are stored one by one: of its range from the oldest of them on."""
    window, begins = question.range.window, kept()
    if not begins.has_older(window):
        return question
    oldest_ns = window.to_ns if begins.requests_ns is None else begins.requests_ns
    clipped = Window(min(max(window.from_ns, oldest_ns), window.to_ns), window.to_ns)
    return question.with_range(replace(question.range, window=clipped))


def of_groups(question: Question, dimension: Dimension) -> Question:
    """The question with the range that its groups by this dimension are of. Of a time whose requests are no longer stored it is longer
    where rollups of the dimension and the filters are kept by longer steps, and shorter where they have no such dimension.
    """
    if dimension not in ROLLED_DIMENSIONS:
        return stored(question)
    filters = {**question.filters, dimension: question.filters.get(dimension) or ("",)}
    window = rounded_window(question.range.window, filters, int(time.time()), kept())
    return question.with_range(replace(question.range, window=window))


def rolled(question: Question, step_ns: int) -> Rolled | None:
    """What a report and a series of the same question share, to be read once; None if they share nothing."""
    return store().latency.rolled(question.range.window, question.filters, step_ns)


def report(question: Question, rolled: RolledOrUnread = "unread") -> LatencyReport:
    return store().latency.report(question.range.window, question.filters, rolled)


def failures(question: Question) -> list[Failure]:
    """Reasons why requests failed, the most frequent first."""
    return store().requests.failures(question.range.window, question.filters)


def with_failures(report: LatencyReport, failed: Sequence[Failure], question: Question) -> LatencyReport:
    """The report with as many errors as `failed` has: one was read after the other, and they are shown as one.

    Not where `failed` lacks some: requests that are no longer stored, or the rarest of very many reasons.
    """
    errors = sum(failure.requests for failure in failed)
    if len(failed) >= MAX_REASONS or kept().lost(question.range.window):
        errors = max(errors, report.errors)
    return replace(report, errors=errors, requests=report.requests - report.errors + errors)


def totals(question: Question) -> Totals:
    return store().latency.totals(question.range.window, question.filters)


def groups(question: Question, dimension: Dimension) -> dict[str, Group]:
    """The most frequent value first."""
    return store().latency.groups(question.range.window, question.filters, dimension)


def cells(question: Question, dimensions: tuple[Dimension, Dimension], most: int) -> Cells:
    """By two dimensions, the most frequent pair first."""
    return store().latency.cells(question.range.window, question.filters, dimensions, most)


def report_by(question: Question, dimension: Dimension) -> dict[str, LatencyReport]:
    """Like `groups`, with the quantiles of every stage."""
    return dict(store().latency.reports_by(question.range.window, question.filters, dimension))


def series(question: Question, step_ns: int, rolled: RolledOrUnread = "unread") -> list[LatencyPoint]:
    """`step_ns` is a whole number of seconds."""
    return store().latency.series(question.range.window, question.filters, step_ns // 1_000_000_000, rolled)


def outline(question: Question, step_ns: int, rolled: RolledOrUnread) -> tuple[LatencyReport, list[LatencyPoint]]:
    """The report and the series, without stages where these would have to be read."""
    return store().latency.outline(question.range.window, question.filters, step_ns // 1_000_000_000, rolled)


def explanation(question: Question, slow: Slow, limit: int = 10) -> tuple[Region, Explanation]:
    """Which requests count as slow, and what sets them apart from the other requests of the question."""
    window, filters = question.range.window, question.filters
    one_in = store().explain.one_in(window, filters)
    region = slow.region or store().explain.slowest(window, filters, int(slow.above[1:]) / 100, one_in)
    return region, store().explain.findings(window, filters, region, limit, one_in)


def heatmap(question: Question, step_ns: int, rolled: Rolled | None) -> list[HeatmapCell]:
    """`step_ns` is a whole number of seconds; `rolled` is what `rolled()` returned for it."""
    return store().explain.heatmap(question.range.window, question.filters, step_ns // 1_000_000_000, rolled)


def requests(
    question: Question,
    order: Order,
    limit: int,
    cursor: str | None = None,
    min_e2e_ns: int = 0,
    max_e2e_ns: int | None = None,
) -> RequestPage:
    """A page of rows. Raises BadQuestionError for a cursor that is not of this order."""
    try:
        return store().requests.page(
            question.range.window, question.filters, order, limit, cursor, min_e2e_ns, max_e2e_ns
        )
    except StoreInputError as error:
        raise BadQuestionError("cursor", cursor or "", str(error), "Leave it out to begin at the first page") from None


def export(question: Question, form: Format, min_e2e_ns: int = 0, max_e2e_ns: int | None = None) -> Iterator[bytes]:
    """All rows as parts of one file. Raises BadQuestionError above MAX_EXPORTED rows."""
    window, filters = question.range.window, question.filters
    count = store().exports.count(window, filters, min_e2e_ns, max_e2e_ns)
    if count > MAX_EXPORTED:
        reason = f"has {count:,} requests, more than the {MAX_EXPORTED:,} of one export"
        raise BadQuestionError("from", question.range.from_text, reason, "Ask for a shorter range, or filter")
    return store().exports.parts(window, filters, form, min_e2e_ns, max_e2e_ns)


def trace(trace_id: str) -> Trace | None:
    """`trace_id` has 32 hex digits. None where there is neither a span nor a request."""
    spans, rows = store().requests.traced(trace_id)
    number = len(spans)
    if number >= ROW_SPANS:
        raw = bytes.fromhex(trace_id)
        number = max(number, store().requests.span_counts([raw]).get(raw, 0))
    return Trace(spans, rows, number) if spans or rows else None


def values(window: Window, dimensions: Sequence[Dimension] = DIMENSIONS) -> dict[Dimension, list[str]]:
    """The values of each dimension in this window, the most frequent first; lengths of prompts from the shortest on."""
    listed = store().overview.values(window, dimensions)
    if "prompt_bucket" in listed:
        listed["prompt_bucket"].sort(key=bucket_start)
    return listed


def health(window: Window, dimension: Dimension) -> dict[str, Health]:
    return {row.value: row for row in store().overview.health(window, dimension)}


def replicas(window: Window, filters: Filters | None = None) -> list[ReplicaHealth]:
    """The attempts at each replica, by pool and replica."""
    return store().overview.replicas(window, filters)


def costs(question: Question) -> list[ModelCost]:
    """What answers cost, by model."""
    return store().overview.costs(question.range.window, question.filters)


def newest_ns() -> int | None:
    """When the newest request of the whole ledger ended."""
    return store().overview.newest()


def covered_ns(window: Window, now_ns: int) -> int:
    """The part of a window that the ledger covers, in ns: from its first request until now, at least a second; 0 if it covers none."""
    return _covered_ns(window, now_ns, store().objectives.oldest_entry())


def answered_ns(window: Window, now_ns: int) -> int:
    """The same, with the time of rollups where the window is answered out of them."""
    begins = kept()
    alone = begins.rollups_alone if begins.lost(window) else None
    return _covered_ns(window, now_ns, alone.from_ns if alone else begins.requests_ns)


def recorded_s(window: Window) -> dict[int, float]:
    """For how many seconds telemetry received, by the start of each five minutes of a window."""
    return store().demand.recorded(window.from_ns // SECOND_NS, -(-window.to_ns // SECOND_NS))


def measured_ns(window: Window, now_ns: int, covered_ns: int, recorded: Mapping[int, float], requests: int) -> int:
    """For how long of the covered part of a window, which is its end, a request would be known: while telemetry received, and while
    requests came late. Rates are over this time, and not known where it is 0, as it is where nothing came and a part was not received.
    `recorded` is what `recorded_s` says of the window; where nothing was noted, such as of imported requests, all of it counts.
    """
    end_ns = min(window.to_ns, now_ns)
    time_s, now_s = ((end_ns - covered_ns) // SECOND_NS, -(-end_ns // SECOND_NS)), now_ns / 1e9
    if not covered_ns or was_recorded(*time_s, recorded, now_s):
        return covered_ns
    if not requests or not recorded:
        return covered_ns if requests else 0
    silent = [store().objectives.longest_without_ends(*stretch) for stretch in unrecorded(*time_s, recorded, now_s)]
    lengths_s = [end_s - begin_s for begin_s, end_s in silent if end_s - begin_s >= MIN_UNMEASURED_S]
    return covered_ns - sum(lengths_s) * SECOND_NS


def received_steps(
    starts: Sequence[int], step_ns: int, end_ns: int, now_ns: int, covered_ns: int, recorded: Mapping[int, float]
) -> list[bool]:
    """Whether a request would be known, had there been one in each step of a window that ends at `end_ns`."""
    return [
        start + step_ns > end_ns - covered_ns
        and was_recorded(start // SECOND_NS, (start + step_ns) // SECOND_NS, recorded, now_ns / 1e9)
        for start in starts
    ]


def _covered_ns(window: Window, now_ns: int, oldest_ns: int | None) -> int:
    if oldest_ns is None or oldest_ns >= window.to_ns:
        return 0
    end_ns = min(window.to_ns, now_ns)
    return max(end_ns - max(window.from_ns, oldest_ns), min(SECOND_NS, window.to_ns - window.from_ns))
