"""Shared by the pages of objectives: the badges of their states, and burn rates as rows."""

from typing import Any

from controlplane.core.formatting import PAGE
from controlplane.dashboard.core.badge import Badge
from controlplane.slo.core.burn import never_fires
from controlplane.slo.queries import ObjectiveStatus

NOW = {
    "page": Badge("▲", "bad", "burning, page"),
    "ticket": Badge("◆", "warn", "burning, ticket"),
    "quiet": Badge("●", "good", "not burning"),
    "empty": Badge("○", "muted", "no data"),
    "unknown": Badge("○", "muted", "unknown"),
    "disabled": Badge("◼", "muted", "disabled"),
}
"""Whether the budget burns too fast now. Only a known good state is green."""
KEPT, BROKEN = Badge("✓", "good", "kept"), Badge("✕", "bad", "broken")
KEPT_AS_MEASURED = Badge("✓", "muted", "kept as measured")


def now(status: ObjectiveStatus) -> Badge:
    return NOW["empty" if status.is_empty else status.severity if status.state == "firing" else status.state]


def over_period(status: ObjectiveStatus) -> Badge | None:
    """Whether the promise is kept over its period so far, whatever burns now; None where that is not known."""
    if status.state not in ("firing", "quiet") or status.budget_left is None:
        return None
    return BROKEN if status.is_broken else KEPT_AS_MEASURED if status.document.get("unmeasured") else KEPT


INCIDENT_STATES = {"open": ("▲", "bad"), "acknowledged": ("◐", "warn"), "resolved": ("✓", "good")}


def rates(status: ObjectiveStatus) -> list[dict[str, Any]]:
    """Each burn window with its threshold and both rates; `never` if even a total outage stays below the threshold."""
    return [
        {
            "severity": verdict["severity"],
            "long_window": PAGE.duration(verdict["long_s"]),
            "short_window": PAGE.duration(verdict["short_s"]),
            "long": PAGE.times(verdict["long"]),
            "short": PAGE.times(verdict["short"]),
            "threshold": PAGE.times(verdict["threshold"]),
            "fires": verdict["fires"] and status.state == "firing",
            "never": 0 < status.row.target < 1 and never_fires(verdict["threshold"], status.row.target),
            "unmeasured": not verdict.get("measured", True),
            "few": not verdict["enough_events"] and (verdict["long"] or 0) > verdict["threshold"],
            "meter": min(1.0, (verdict["long"] or 0) / verdict["threshold"]) * 100 if verdict["threshold"] else 0,
        }
        for verdict in status.document.get("verdicts", ())
    ]
