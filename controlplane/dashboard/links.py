"""Links between pages that keep the question."""

from django.urls import Resolver404, ResolverMatch, resolve, reverse

from controlplane.core.formatting import relative
from controlplane.dashboard.core.screen import link_query
from controlplane.telemetry.core.query_types import Failure, Window
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.timerange import MAX_NS, SECOND_NS, TimeRange, fixed

FAILED = ("error", "rejected")
PRESETS = ("5m", "15m", "1h", "6h", "24h", "7d")


def plain(time_range: TimeRange) -> Question:
    """A question without filters."""
    return Question(time_range, {})


def back(question: Question, length: str) -> Question:
    """The same, of the last `length`. The window is not read: the range is only written into a link."""
    return question.with_range(TimeRange(f"now-{length}", "now", question.range.window))


def wider(question: Question) -> Question | None:
    """Twice as long around the same middle; None where that is longer than may be asked."""
    length = question.range.length_ns
    if 2 * length > MAX_NS:
        return None
    window = Window(max(10**18, question.range.window.from_ns - length // 2), question.range.window.to_ns + length // 2)
    if question.range.live:
        return back(question, relative(2 * length // SECOND_NS))
    return question.with_range(fixed(window))


def latency(question: Question, **more: str) -> str:
    return f"{reverse('latency')}?{link_query([*question.pairs(), *more.items()])}"


def requests(question: Question, **more: str) -> str:
    return f"{reverse('requests')}?{link_query([*question.pairs(), *more.items()])}"


def lengths(least_ns: int | None, most_ns: int | None) -> dict[str, str]:
    """The parameters of `requests` for an E2E from the one to the other; None or 0 is no bound."""
    bounds = {"min_ms": least_ns, "max_ms": most_ns}
    return {name: f"{ns / 1e6:.10g}" for name, ns in bounds.items() if ns}


def failed(question: Question) -> str:
    """The requests that failed: of those that the question's own filter of statuses lets pass."""
    statuses = question.filters.get("status", FAILED)
    return requests(question.with_filter("status", *(status for status in FAILED if status in statuses)))


def failed_for(question: Question, failure: Failure) -> str:
    """The requests that failed for one reason; where the spans gave none, those of its status."""
    narrowed = question.with_filter("status", failure.status)
    reason = (f"error.type={failure.error_type}",) if failure.error_type else ()
    return requests(
        narrowed.with_filter("attribute", *dict.fromkeys((*question.filters.get("attribute", ()), *reason)))
    )


def trace(trace_id: str, request_id: str = "") -> str:
    return reverse("trace", args=[trace_id]) + (f"#r-{request_id}" if request_id else "")


def view_of(path: str) -> ResolverMatch | None:
    """What answers a path, with its query; None where nothing does."""
    try:
        return resolve(path.partition("?")[0])
    except Resolver404:
        return None


def is_page(path: str) -> bool:
    """Whether a path, with its query, is one of the dashboard's."""
    view = view_of(path)
    if view is None or view.url_name in ("shared", "share"):
        return False
    return view.func.__module__.startswith("controlplane.dashboard.views.")
