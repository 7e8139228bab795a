"""Marks changes, such as deployments, on charts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from controlplane.dashboard.core.figures.layout import MUTED, Figure, words_above
from controlplane.incidents.models import ChangeRecord
from controlplane.telemetry.core.query_types import Window

MOST = 20


def changes_in(window: Window, scope: Mapping[str, str] | None = None) -> list[ChangeRecord]:
    """Those of a window that touch a scope (all requests unless given), the newest MOST of them, in order of time."""
    ends = (datetime.fromtimestamp(ns / 1e9, UTC) for ns in (window.from_ns, window.to_ns))
    touching = (
        record
        for record in ChangeRecord.objects.filter(at__range=tuple(ends)).order_by("-at", "-id")
        if all((scope or {}).get(name, value) == value for name, value in record.scope.items())
    )
    return list(islice(touching, MOST))[::-1]


def marked(figure: Figure, changes: Sequence[ChangeRecord]) -> Figure:
    """The figure with a dotted line and a triangle for each change, which says on hover what was changed, when and by whom."""
    layout = figure["layout"]
    marks: list[dict[str, Any]] = []
    for change in changes:
        x = change.at.timestamp() * 1000
        layout.setdefault("shapes", []).append(
            {
                "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
                "line": {"color": MUTED, "width": 1, "dash": "dot"},
            }
        )  # fmt: skip
        said = f"{change.summary} ({change.source}), {change.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        marks.append(words_above("▼", xref="x", x=x, xanchor="auto", yshift=0, hovertext=said))
    layout["annotations"] = [*layout.get("annotations", []), *marks]
    return figure
