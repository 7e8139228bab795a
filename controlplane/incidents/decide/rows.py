"""Reads incidents and silences from the database as the values that decisions take, and writes them back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast
from uuid import uuid4

from django.db.models import QuerySet

from controlplane.core.formatting import capitalised
from controlplane.incidents.components.core import component_text
from controlplane.incidents.components.core.alert import PREFIX, ComponentAlert
from controlplane.incidents.core.silences import Silence, Subject
from controlplane.incidents.decide.core.inhibition import Breakdown
from controlplane.incidents.decide.core.machine import Signal, Takes
from controlplane.incidents.decide.core.steps import Cooling, Kind, Tracked, Withheld
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.incidents.notify.core.notice import SENT_AS
from controlplane.incidents.notify.delivery import outbox
from controlplane.incidents.notify.delivery.core import reach, route
from controlplane.slo.core.alert import State
from controlplane.slo.core.windows import Severity

MAX_SHORT = timedelta(days=1)
"""No short window of a burn rate is longer. For so long after its end, a component's incident may explain an alert."""


def tracked(row: Incident) -> Tracked:
    return Tracked(
        key=row.alert_key,
        severity=cast(Severity, row.severity),
        scope=row.scope,
        queued_as=cast(Severity, row.queued_as) if row.queued_as else None,
        withheld=withheld(row),
        acknowledged=row.status == Incident.Status.ACKNOWLEDGED,
        outage=row.outage,
        signal=cast(State, row.signal),
        quiet_since=row.quiet_since,
        downgraded_since=row.downgraded_since,
        missing_since=row.missing_since,
    )


def write_back(row: Incident, after: Tracked) -> None:
    """Unsaved."""
    for name in ("severity", "outage", "signal", "quiet_since", "downgraded_since", "missing_since"):
        setattr(row, name, getattr(after, name))
    row.queued_as = after.queued_as or ""
    row.withheld, row.withheld_by = (after.withheld.kind, after.withheld.by) if after.withheld else ("", "")


def subject(row: Incident) -> Subject:
    return Subject(row.objective, row.owner, row.severity, row.scope, row.labels, row.component)


def withheld(row: Incident) -> Withheld | None:
    return Withheld(cast(Kind, row.withheld), row.withheld_by) if row.withheld else None


def new_notice_key(row: Incident) -> str:
    """A new one each time, because what was resolved at a destination stays resolved there."""
    return f"weir/{(row.objective or row.component)[:200]}/{uuid4().hex}"


SHOULD_NOTIFY = ("", "nobody")
"""`withheld` of incidents that notify somebody, or should. All other reasons are decisions not to."""


def of_objectives(lock: bool = False) -> dict[str, Incident]:
    """Open ones, by alert key."""
    return _by_key(Incident.objects.filter(component=""), lock)


def of_components(lock: bool = False) -> dict[str, Incident]:
    """Open ones, by alert key."""
    return _by_key(Incident.objects.exclude(component=""), lock)


def _by_key(query: QuerySet[Incident], lock: bool) -> dict[str, Incident]:
    open_ones = query.exclude(status=Incident.Status.RESOLVED).order_by("id")
    return {row.alert_key: row for row in (open_ones.select_for_update() if lock else open_ones)}


def breakdowns(now: datetime) -> list[Breakdown]:
    """Of components whose incident sent a page: those that are open, and those that resolved lately."""
    query = Incident.objects.exclude(component="").filter(queued_as=Incident.Severity.PAGE)
    open_ones = query.exclude(status=Incident.Status.RESOLVED)
    over = query.filter(status=Incident.Status.RESOLVED, signal=Incident.Signal.QUIET, quiet_since__gt=now - MAX_SHORT)
    return [Breakdown(row.alert_key, tuple(row.explains)) for row in open_ones if row.explains] + [
        Breakdown(row.alert_key, tuple(row.explains), row.quiet_since) for row in over if row.explains
    ]


@dataclass(frozen=True, slots=True)
class Down:
    """A component that is down now: its scope, and the text of its incident."""

    scope: Mapping[str, str]
    said: str

    def concerns(self, scope: Mapping[str, str]) -> bool:
        """Whether some of the scope's traffic may go through it."""
        return all(scope.get(name, value) == value for name, value in self.scope.items())


def down_now() -> list[Down]:
    """Components that are down, from their open incidents."""
    down = [row for row in of_components().values() if row.signal == Incident.Signal.FIRING]
    return [
        Down(row.scope, f"{row.objective_name} {component_text.measured(row.definition, row.burning)}") for row in down
    ]


def name_of(key: str) -> str:
    """Name and number of the latest incident of an alert: `pool chat-large-local (#12)`."""
    row = Incident.objects.filter(alert_key=key).order_by("-id").first()
    return f"{row.objective_name} (#{row.pk})" if row else key.removeprefix(PREFIX)


def takes(known: Mapping[str, Incident], lock: bool = False) -> Takes:
    """Whether a destination takes it, as they are now, and with `lock` until the transaction ends. `known`: open incidents by alert
    key; for other alerts, the owner of the objective or the component counts."""
    candidates = outbox.candidates(lock)

    def any_takes(alert: Signal, severity: Severity) -> bool:
        owner = alert.owner if isinstance(alert, ComponentAlert) else alert.objective.owner
        if alert.key in known:
            owner = known[alert.key].owner
        return bool(route.takers_of(SENT_AS[severity], owner, candidates))

    return any_takes


def silences(now: datetime) -> list[Silence]:
    return [record.value() for record in SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now)]


def cooling(now: datetime) -> Mapping[str, Cooling]:
    """Keys that a person resolved lately, with the latest time of each."""
    rows = Incident.objects.filter(status=Incident.Status.RESOLVED, cool_until__gt=now).order_by("resolved_at")
    return {row.alert_key: Cooling(row.cool_until, cast(Severity, row.severity)) for row in rows if row.cool_until}


def not_sent(withheld: Withheld) -> str:
    """As a sentence without its full stop."""
    why = why_withheld(withheld)
    return capitalised(why) if withheld.kind == "nobody" else f"Nobody is notified: {why}"


def silenced(silence: SilenceRecord) -> str:
    return f"silenced by {silence.author} until {silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.reason}"


def why_withheld(withheld: Withheld) -> str:
    """A part of a sentence."""
    match withheld.kind:
        case "silenced":
            silence = SilenceRecord.objects.filter(pk=withheld.by).first()
            return silenced(silence) if silence else "silenced"
        case "inhibited" if withheld.by.startswith(PREFIX):
            return f"explained by the incident of {name_of(withheld.by)}"
        case "inhibited":
            return f"inhibited by {withheld.by}"
        case "maintenance":
            return "planned maintenance"
        case "acknowledged":
            return "acknowledged before it was delivered"
        case "nobody":
            return f"nobody was notified: {reach.no_destination(withheld.by)}"
    return "it no longer fires as a page"
