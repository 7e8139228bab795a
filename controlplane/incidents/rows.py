"""Incidents as rows, and as decisions see them."""

from collections.abc import Mapping
from datetime import datetime
from typing import cast

from controlplane.incidents.machine import Cooling, Kind, Tracked, Withheld
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.silence import Silence
from controlplane.slo.alert import State
from controlplane.slo.windows import Severity


def tracked(row: Incident) -> Tracked:
    return Tracked(
        key=row.alert_key,
        severity=cast(Severity, row.severity),
        scope=row.scope,
        told=cast(Severity, row.told) if row.told else None,
        withheld=withheld(row),
        acknowledged=row.status == Incident.Status.ACKNOWLEDGED,
        outage=row.outage,
        signal=cast(State, row.signal),
        quiet_since=row.quiet_since,
        eased_since=row.eased_since,
        gone_since=row.gone_since,
    )


def write_back(row: Incident, after: Tracked) -> None:
    """Unsaved."""
    row.severity, row.told, row.outage, row.signal = after.severity, after.told or "", after.outage, after.signal
    row.withheld = after.withheld.kind if after.withheld else ""
    row.withheld_by = after.withheld.by if after.withheld else ""
    row.quiet_since, row.eased_since, row.gone_since = after.quiet_since, after.eased_since, after.gone_since


def withheld(row: Incident) -> Withheld | None:
    return Withheld(cast(Kind, row.withheld), row.withheld_by) if row.withheld else None


def open_rows(lock: bool = False) -> dict[str, Incident]:
    """By alert key."""
    query = Incident.objects.exclude(status=Incident.Status.RESOLVED).order_by("id")
    return {row.alert_key: row for row in (query.select_for_update() if lock else query)}


def silences(now: datetime) -> list[Silence]:
    return [record.value() for record in SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now)]


def cooling(now: datetime) -> Mapping[str, Cooling]:
    """Keys that a person resolved not long ago, the latest time of each."""
    rows = Incident.objects.filter(status=Incident.Status.RESOLVED, cool_until__gt=now).order_by("resolved_at")
    return {row.alert_key: Cooling(row.cool_until, cast(Severity, row.severity)) for row in rows if row.cool_until}


def why_untold(withheld: Withheld) -> str:
    """In words."""
    match withheld.kind:
        case "silenced":
            silence = SilenceRecord.objects.filter(pk=withheld.by).first()
            if silence is None:
                return "silenced"
            return f"silenced by {silence.author} until {silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.reason}"
        case "inhibited":
            return f"inhibited by {withheld.by}"
        case "maintenance":
            return "planned maintenance"
        case "acknowledged":
            return "acknowledged before it was delivered"
    return "it no longer fires as a page"
