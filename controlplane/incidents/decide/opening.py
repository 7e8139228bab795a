"""Makes the row of a new incident, and its figures at each tick: of an objective, or of a component."""

from typing import Any

from django.urls import reverse

from controlplane.incidents.attribution import gather
from controlplane.incidents.attribution.core import alert_record
from controlplane.incidents.components.core import alert_record as component
from controlplane.incidents.components.core.alert import ComponentAlert
from controlplane.incidents.components.core.words import WORDS
from controlplane.incidents.decide.core.machine import Signal
from controlplane.incidents.models import Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.slo.core.alert import Alert

MEASURED = ("value", "value_at_ns", "worst")
"""Figures of the store's, which are kept until they are measured again."""


def incident(alert: Signal, gathered: gather.Found | None) -> Incident:
    """Unsaved. The caller adds its notice's key, its severity and its time."""
    if isinstance(alert, ComponentAlert):
        return _of_component(alert)
    return _of_objective(alert, gathered or gather.unanswered(alert))


def present(alert: Signal, row: Incident) -> dict[str, Any]:
    """Figures as of this tick; where they are unknown, those of the last tick that had them."""
    if isinstance(alert, ComponentAlert):
        return component.present(alert, row.burning)
    if alert.state == "unknown":
        return {**row.burning, "state": "unknown"}
    measured = {name: row.burning[name] for name in MEASURED if name in row.burning}
    return {**alert_record.burning(alert), **measured}


def _of_objective(alert: Alert, gathered: gather.Found) -> Incident:
    objective = alert.objective
    return Incident(
        alert_key=alert.key,
        objective=objective.slug,
        objective_name=objective.name,
        definition=alert_record.definition(objective),
        scope=dict(alert.scope),
        owner=objective.owner,
        runbook=objective.runbook,
        runbook_text=objective.runbook_text,
        labels=dict(objective.labels),
        group=page_text.group(alert.scope, objective.owner),
        since=gather.since(gathered.attribution),
        burning=alert_record.burning(alert),
        opened_with=alert_record.burning(alert),
        attribution=gathered.attribution,
        attribution_missing=gathered.missing,
        changes=gathered.changes,
    )


def _of_component(alert: ComponentAlert) -> Incident:
    burning = component.present(alert, {})
    return Incident(
        alert_key=alert.key,
        component=alert.component,
        explains=[dict(scope) for scope in alert.explains],
        objective_name=alert.name,
        definition=component.definition(alert),
        scope=dict(alert.scope),
        owner=alert.owner,
        runbook=notices.absolute(f"{reverse('causes')}#{WORDS[alert.kind].anchor}"),
        group=page_text.group(alert.scope, alert.owner),
        since=alert.since,
        burning=burning,
        opened_with=burning,
    )
