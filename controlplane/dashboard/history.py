"""Says what is kept of a page's range, and which of it is synthetic."""

from typing import Any

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.screen import Screen
from controlplane.dashboard.core.zone import minute, said
from controlplane.planning.models import DemoHistory
from controlplane.telemetry.core.query_types import Dimension, Window, filtered_by
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.timerange import SECOND_NS, fixed
from controlplane.telemetry.store.read.retained import DIMENSIONS, Kept

MINUTE_NS = 60 * SECOND_NS


def history_context(screen: Screen, shown: Question, *, lists: bool = False) -> dict[str, Any]:
    """`history`: what there is of the range and from when on, where its first requests are not stored; None where all is as usual.

    `shown` is `answers.rounded` of its question. `lists`: the page is of stored requests alone.
    """
    wanted = screen.question
    kept = answers.kept()
    state = _state(wanted, shown, kept, lists=lists)
    if not state:
        return {"history": None}
    whole, used = wanted.range.window, shown.range.window
    return {
        "history": {
            "state": state,
            "requests": _since(screen, kept.requests_ns),
            "rollups": _since(screen, kept.rollups_ns) if kept.rollups_alone else None,
            "made_up": kept.made_up,
            "moved": used != whole,
            "from": minute(used.from_ns),
            "to": "" if wanted.range.live else minute(used.to_ns),
            "lacks": sorted(filtered_by(wanted.filters) - DIMENSIONS),
        }
    }


def _state(wanted: Question, shown: Question, kept: Kept, *, lists: bool) -> str:
    """`rollups`: it is answered out of them. `lacks`: they lack a filter. `short`: only longer ranges are. `nothing`: of its time there is
    nothing. `lists`: of its time there are rollups, which have no single requests."""
    window = wanted.range.window
    if kept.requests_ns is None and kept.rollups_ns is None:
        return ""
    older = kept.has_older(window)
    if older and lists:
        return "lists"
    if older and kept.lost(window):
        return "lacks" if filtered_by(wanted.filters) - DIMENSIONS else "rollups"
    if older:
        return "short"
    return "nothing" if kept.requests_ns is None or window.to_ns <= kept.requests_ns else ""


def stored_since(window: Window) -> str:
    """From when on requests are stored, where the range has older time of which there are rollups alone; empty elsewhere."""
    kept = answers.kept()
    return minute(kept.requests_ns) if kept.requests_ns is not None and kept.has_older(window) else ""


def groups_of(window: Window, own: Window, by: Dimension) -> str:
    """Which time groups are of (`own`), where that is not the page's; else empty."""
    if own == window:
        return ""
    name = by.replace("_", " ")
    if by in DIMENSIONS:
        half_days = f"rollups by {name} and the filters are kept by the half day"
        return f"Of the requests from {minute(own.from_ns)} to {minute(own.to_ns)} {said()}: {half_days}."
    if own.from_ns >= own.to_ns:
        return f"None of these requests is stored by itself, and rollups have no {name}."
    return (
        f"Of requests since {minute(own.from_ns)} {said()}: of the time before there are rollups, which have no {name}."
    )


def _since(screen: Screen, at_ns: int | None) -> dict[str, str] | None:
    """When something begins, and the query of a range of the same length that begins there."""
    if at_ns is None:
        return None
    from_ns = at_ns // MINUTE_NS * MINUTE_NS
    begins = Window(from_ns, from_ns + max(MINUTE_NS, screen.question.range.length_ns))
    return {"at": minute(at_ns), "query": screen.query(screen.question.with_range(fixed(begins)))}


def synthetic(from_s: int, to_s: int) -> dict[str, str] | None:
    """Which part of a time is synthetic history; None where none is."""
    rows = DemoHistory.objects.filter(from_s__lt=to_s, to_s__gt=from_s).order_by("from_s")
    parts = [
        f"{minute(row.from_s * SECOND_NS)} to {minute(row.to_s * SECOND_NS)} {said()}"
        f" ({PAGE.counted(row.requests, 'request') if row.complete else 'still being written, the newest first'})"
        for row in rows
    ]
    return {"text": f"Made up, not measured: {', '.join(parts)}."} if parts else None


def synthetic_context(shown: Question, *, exact: bool) -> dict[str, Any]:
    """`synthetic` of a range whose figures may be of rollups; those of requests alone (`exact`) have nothing synthetic."""
    window = shown.range.window
    return {"synthetic": None if exact else synthetic(window.from_ns // SECOND_NS, -(-window.to_ns // SECOND_NS))}
