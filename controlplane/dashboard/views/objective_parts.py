"""Shared by the pages of objectives: icons of states, and burn rates as rows."""

from typing import Any

from controlplane.core.formatting import PAGE
from controlplane.slo.core.burn import never_fires
from controlplane.slo.queries import ObjectiveStatus

STATE_LOOKS = {
    "page": ("▲", "bad", "burning, page"),
    "ticket": ("◆", "warn", "burning, ticket"),
    "quiet": ("●", "good", "holds"),
    "empty": ("○", "muted", "no data"),
    "unknown": ("○", "muted", "unknown"),
    "disabled": ("◼", "muted", "disabled"),
}
"""Icon, colour class and word. Only a known good state is green."""

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
            "few": not verdict["enough_events"] and (verdict["long"] or 0) > verdict["threshold"],
            "meter": min(1.0, (verdict["long"] or 0) / verdict["threshold"]) * 100 if verdict["threshold"] else 0,
        }
        for verdict in status.document.get("verdicts", ())
    ]
