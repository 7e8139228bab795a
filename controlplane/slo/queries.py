"""Reads objectives and their latest states, for pages and the API."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.core.formatting import TEXT
from controlplane.core.reported import reported_at
from controlplane.fleet.models import Observation
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.period import Span
from controlplane.slo.evaluate.states import STALE
from controlplane.slo.models import ObjectiveState, StoredObjective
from controlplane.slo.models.planned_maintenance import enabled_maintenance

JUDGED_FOR = timedelta(seconds=20)
"""What was judged counts for so long: three ticks were missed by then, and another controller could have taken over."""
NOT_YET = "not judged yet: the controller judges it within seconds, if it runs"


@dataclass(frozen=True, slots=True)
class ObjectiveStatus:
    """The present state of an objective in one scope: `unknown` where it was not judged lately."""

    row: StoredObjective
    key: str
    scope: dict[str, str]
    state: str  # "firing", "quiet", "unknown", "disabled"
    severity: str
    since: datetime | None
    at: datetime | None
    maintenance: bool
    why: str
    document: dict[str, Any]

    @property
    def is_empty(self) -> bool:
        """Whether it was judged, and the whole period has no event: it neither holds nor fails."""
        return self.state == "quiet" and self.document.get("total") == 0

    @property
    def budget_left(self) -> float | None:
        budget = self.document.get("budget") if self.state != "disabled" else None
        return None if budget is None or self.document.get("total") == 0 else budget["left_share"]

    @property
    def is_broken(self) -> bool:
        """Whether more than the budget of the period is spent, whatever burns now. What is not known is not broken, and not kept."""
        return self.state in ("firing", "quiet") and self.budget_left is not None and self.budget_left < 0


class Present(NamedTuple):
    now: datetime
    judged_at: datetime | None  # the controller's last tick


def present() -> Present:
    tick = newest_tick()
    return Present(timezone.now(), tick.observed_at if tick else None)


def statuses(row: StoredObjective, states: Iterable[ObjectiveState], at: Present) -> list[ObjectiveStatus]:
    """One for each scope; where there is none, one that says why."""
    judged = [_status(row, state, at) for state in states] if row.enabled else []
    if judged:
        return judged
    state, why = ("unknown", NOT_YET) if row.enabled else ("disabled", "disabled: it is not judged")
    return [ObjectiveStatus(row, row.slug, dict(row.scope), state, "", None, None, False, why, {})]


def all_statuses() -> list[ObjectiveStatus]:
    """Of every objective and scope, the most urgent first."""
    at = present()
    rows = StoredObjective.objects.select_related("owner").prefetch_related("states")
    return sorted((status for row in rows for status in statuses(row, row.states.all(), at)), key=urgency)


def urgency(status: ObjectiveStatus) -> tuple[int, float, str]:
    rank = (
        {"page": 0, "ticket": 1}.get(status.severity) if status.state == "firing" else 2 if status.is_broken else None
    )
    order = rank if rank is not None else {"unknown": 3, "quiet": 5 if status.is_empty else 4}.get(status.state, 6)
    return order, 2.0 if status.budget_left is None else status.budget_left, status.key


def ticks() -> QuerySet[Observation]:
    """What the controller reported at its last tick: one row, or none."""
    return Observation.objects.filter(component="controller")


def newest_tick() -> Observation | None:
    tick = ticks().first()
    if tick is not None:
        tick.observed_at = reported_at(tick.component, tick.observed_at, timezone.now())
    return tick


def maintenance_in(objective: Objective, span: Span) -> list[tuple[MaintenanceWindow, Span]]:
    """Maintenance windows of an objective in a span of time, in order."""
    occurrences = [
        (window, when)
        for window in enabled_maintenance()
        if window.concerns(objective.slug)
        for when in window.occurrences(span)
    ]
    return sorted(occurrences, key=lambda pair: pair[1].from_ns)


def _status(row: StoredObjective, state: ObjectiveState, at: Present) -> ObjectiveStatus:
    """An unchanged state is written less often than it is judged."""
    age = at.now - max(reported_at(state.key, state.at, at.now), at.judged_at or state.at)
    document, why = dict(state.document), str(state.document.get("why", ""))
    judged, severity = state.state, state.severity
    if age > JUDGED_FOR or at.now - state.at > STALE:
        judged, severity = "unknown", ""
        why = f"not judged for {TEXT.duration(age.total_seconds())}: does the controller run?"
    return ObjectiveStatus(
        row, state.key, dict(state.scope), judged, severity, state.since, state.at, state.maintenance, why, document
    )
