"""Writes down what a tick found, for the pages of other processes."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.slo.evaluation import Evaluation
from controlplane.slo.models import ObjectiveState, StoredObjective, Tick

FRESH = timedelta(seconds=15)
"""What has not changed is written again after this."""
KEPT = timedelta(days=1)
STALE = timedelta(seconds=60)
"""Age from which a state is not believed any more: four writings missed."""

_FIELDS = ["objective", "scope", "at", "state", "severity", "maintenance", "since", "document"]


@transaction.atomic
def write(evaluations: Sequence[Evaluation], now: datetime, broken: Mapping[str, str] | None = None) -> None:
    """The latest state of each; those of objectives that are no longer evaluated are removed.

    `broken`: why a row is no objective, by slug.
    """
    broken = broken or {}
    ids = dict(StoredObjective.objects.values_list("slug", "pk"))
    before = {row.key: row for row in ObjectiveState.objects.defer("document")}
    rows = [
        row
        for one in evaluations
        if one.alert.objective.slug in ids
        and (row := _row(one, ids[one.alert.objective.slug], before.get(one.alert.key), now)) is not None
    ]
    rows += [
        ObjectiveState(objective_id=ids[slug], key=slug, at=now, state="unknown", since=now, document={"why": why})
        for slug, why in broken.items()
        if slug in ids
    ]
    ObjectiveState.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["key"], update_fields=_FIELDS, batch_size=100
    )
    if gone := before.keys() - {one.alert.key for one in evaluations} - broken.keys():
        ObjectiveState.objects.filter(key__in=list(gone)).delete()


def beat(tick: Tick) -> None:
    """The heartbeat of a tick; old ones go."""
    tick.save()
    Tick.objects.filter(at__lt=tick.at - KEPT).delete()


def _row(one: Evaluation, objective: int, before: ObjectiveState | None, now: datetime) -> ObjectiveState | None:
    alert = one.alert
    looks = (alert.state, alert.severity or "", alert.maintenance)
    same = before is not None and (before.state, before.severity, before.maintenance) == looks
    if before is not None and same and now - before.at < FRESH:
        return None
    return ObjectiveState(
        objective_id=objective,
        key=alert.key,
        scope=dict(alert.scope),
        at=now,
        state=alert.state,
        severity=alert.severity or "",
        maintenance=alert.maintenance,
        since=before.since if before is not None and same else now,
        document=one.document(),
    )
