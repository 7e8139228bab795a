"""A component's alert as JSON, which its incident keeps."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.incidents.components.core.alert import ComponentAlert


def definition(alert: ComponentAlert) -> dict[str, Any]:
    """The kind of component, which its text is chosen by."""
    return {"kind": "component", "of": alert.kind, "component": alert.component}


def present(alert: ComponentAlert, before: Mapping[str, Any]) -> dict[str, Any]:
    """`since_ns`: when it last went down. `back_ns`: since when it has been up again.

    Where the state is `unknown`, the figures stay as they were last known.
    """
    if alert.state == "unknown":
        return {**before, "at_ns": alert.at_ns, "state": "unknown"}
    back = before.get("back_ns") or alert.at_ns
    if alert.state == "quiet":
        return {**before, **_counts(alert), "at_ns": alert.at_ns, "state": "quiet", "back_ns": back}
    return {
        **_counts(alert),
        "at_ns": alert.at_ns,
        "state": "firing",
        "since_ns": ns(alert.since) or before.get("since_ns"),
        "up_at_ns": ns(alert.up_at),
        "back_ns": None,
        "error": alert.error,
        "names": list(alert.names),
    }


def _counts(alert: ComponentAlert) -> dict[str, Any]:
    return {"up": alert.up, "of": alert.of}


def ns(at: datetime | None) -> int | None:
    return int(at.timestamp() * 1e6) * 1000 if at else None
