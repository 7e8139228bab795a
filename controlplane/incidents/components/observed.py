"""Reads what the worker observed and the controller wrote from the database."""

from collections.abc import Iterator
from datetime import datetime

from controlplane.config import Config
from controlplane.core.reported import reported_at
from controlplane.fleet.inventory import observations, pool_entries
from controlplane.incidents.components.core.judge import Limits, Observations
from controlplane.incidents.components.core.unjudged import ObjectiveSeen
from controlplane.slo.models import ObjectiveState
from controlplane.slo.models.planned_maintenance import enabled_maintenance


def limits(config: Config) -> Limits:
    return Limits(
        page_after_s=config.component_page_after_s,
        ticket_after_s=config.component_ticket_after_s,
        stale_after_s=config.stale_after_s,
    )


def read(watching_since: datetime, now: datetime, operated_by: str) -> Observations:
    return Observations(
        pools=pool_entries(),
        components={observation.component: observation for observation in observations(now)},
        objectives=list(_objectives(now)),
        planned=enabled_maintenance(),
        watching_since=watching_since,
        operated_by=operated_by,
    )


def _objectives(now: datetime) -> Iterator[ObjectiveSeen]:
    states = ObjectiveState.objects.filter(objective__enabled=True).select_related("objective__owner")
    for row in states:
        scope = " · ".join(f"{name} {value or 'unknown'}" for name, value in sorted(row.scope.items()))
        split = row.objective.slug != row.key and len(row.scope) > 0
        yield ObjectiveSeen(
            name=f"{row.objective.name} ({scope})" if split else row.objective.name,
            owner=row.objective.owner.name if row.objective.owner else "",
            is_unknown=row.state == ObjectiveState.State.UNKNOWN and not row.document.get("meant"),
            since=row.since,
            at=reported_at(row.key, row.at, now),
            why=str(row.document.get("why") or ""),
        )
