"""Notices and destinations for tests."""

from datetime import UTC, datetime
from typing import Any

from controlplane.incidents.notify.core.notice import Change, Notice, NoticeAction, NoticeSeverity
from controlplane.incidents.notify.delivery.models import SEVERITIES, Destination

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def notice(action: NoticeAction, sequence: int, key: str = "incident-1", **values: Any) -> Notice:
    severity: NoticeSeverity = values.pop("severity", "critical")
    return Notice(action, key, sequence, AT, f"{key} {action}", severity, source="weir", **values)


def change(**values: Any) -> Change:
    return Change("policy revision 15", "weir", AT, **values)


def routing_key(number: int) -> str:
    return f"{number:032d}"


def pagerduty(name: str, number: int = 1, url: str = "", **values: Any) -> Destination:
    destination = Destination(
        name=name, kind="pagerduty", severities=values.pop("severities", list(SEVERITIES)), **values
    )
    destination.point_at(url, routing_key(number))
    destination.save()
    return destination
