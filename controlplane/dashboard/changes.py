"""Marks changes, such as deployments, on charts; each mark opens what it marks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, cast
from urllib.parse import quote

from controlplane.dashboard import links
from controlplane.dashboard.core import zone
from controlplane.dashboard.core.figures.layout import MUTED, Figure, dotted, words_above
from controlplane.incidents.models import ChangeRecord
from controlplane.telemetry.core.query_types import Filters, Window
from controlplane.telemetry.query.core.question import DIMENSIONS, Question
from controlplane.telemetry.query.core.timerange import SECOND_NS, fixed

MAX_MARKS = 20
AFTER_NS = 15 * 60 * SECOND_NS


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """`href`: what its author linked it to, or else the latency since it, beside that before it."""

    at: datetime
    summary: str
    source: str
    href: str


def changes_in(window: Window, scope: Mapping[str, str] | None = None) -> list[ChangeMark]:
    """Those of a window that touch a scope (all requests unless given), the newest MAX_MARKS of them, in order of time."""
    ends = (datetime.fromtimestamp(ns / 1e9, UTC) for ns in (window.from_ns, window.to_ns))
    touching = (
        record
        for record in ChangeRecord.objects.filter(at__range=tuple(ends)).order_by("-at", "-id")
        if record.touches(scope or {})
    )
    return marks(islice(touching, MAX_MARKS))[::-1]


def marks(records: Iterable[ChangeRecord]) -> list[ChangeMark]:
    return [ChangeMark(each.at, each.summary, each.source, _href(each)) for each in records]


def _href(change: ChangeRecord) -> str:
    if change.link:
        return change.link
    at_ns = int(change.at.timestamp()) * SECOND_NS
    filters = cast(Filters, {name: (value,) for name, value in change.scope.items() if name in DIMENSIONS})
    return links.latency(Question(fixed(Window(at_ns, at_ns + AFTER_NS)), filters), compare="previous")


def marked(figure: Figure, changes: Sequence[ChangeMark]) -> Figure:
    """The figure with a dotted line and a triangle for each change, which says on hover what was changed, when and by whom; a click on
    it opens that."""
    layout = figure["layout"]
    above: list[dict[str, Any]] = []
    for change in changes:
        x = change.at.timestamp() * 1000
        layout.setdefault("shapes", []).append(dotted(MUTED, xref="x", yref="paper", x0=x, x1=x, y0=0, y1=1))
        said = f"{change.summary} ({change.source}), {zone.moment(int(change.at.timestamp()) * SECOND_NS)[:19]} {zone.said()}"
        above.append(
            words_above(
                f'<a href="{quote(change.href, _IN_A_LINK)}" target="_self">▼</a>',
                xref="x",
                x=x,
                xanchor="auto",
                yshift=0,
                hovertext=said,
            )
        )
    layout["annotations"] = [*layout.get("annotations", []), *above]
    return figure


_IN_A_LINK = ":/?#[]@!$&()*+,;=%~"
"""What may stand in a link of plotly's text as it is."""
