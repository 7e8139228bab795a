"""Writes the results of a tick to the database, for the pages of other processes."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from django.db import DataError, transaction

from controlplane.slo.core.alert import MAX_KEY_CHARS
from controlplane.slo.core.evaluation import Evaluation
from controlplane.slo.models import ObjectiveState, StoredObjective

log = structlog.get_logger(__name__)

FRESH = timedelta(seconds=15)
"""A state that has not changed is written again after this."""
STALE = timedelta(seconds=60)
"""A state older than this is not trusted: four writes were missed."""

_FIELDS = ["objective", "scope", "at", "state", "severity", "maintenance", "since", "document"]


@transaction.atomic
def write(evaluations: Sequence[Evaluation], now: datetime, broken: Mapping[str, str] | None = None) -> None:
    """Write the latest states, and remove those of objectives that are no longer evaluated.

    `broken`: why a row is no valid objective, by slug.
    """
    broken = broken or {}
    ids = dict(StoredObjective.objects.values_list("slug", "pk"))
    before = {row.key: row for row in ObjectiveState.objects.defer("document")}
    rows = [
        row
        for evaluation in evaluations
        if evaluation.alert.objective.slug in ids
        and (row := _row(evaluation, ids[evaluation.alert.objective.slug], before.get(evaluation.alert.key), now))
        is not None
    ]
    rows += [_unknown(slug, ids[slug], {}, why, before.get(slug), now) for slug, why in broken.items() if slug in ids]
    others = _put(rows, before, now)
    if obsolete := before.keys() - {evaluation.alert.key for evaluation in evaluations} - broken.keys() - others:
        ObjectiveState.objects.filter(key__in=list(obsolete)).delete()


def _put(rows: Sequence[ObjectiveState], before: Mapping[str, ObjectiveState], now: datetime) -> set[str]:
    """Write all rows at once; if the database refuses, one by one. A row that it refuses becomes `unknown`, and stops no other.

    Returns the keys of refused rows as they were written.
    """
    try:
        with transaction.atomic():
            _upsert(rows)
    except (DataError, ValueError) as error:
        log.warning("states.refused_together", error=str(error))
        return _put_each(rows, before, now)
    return set()


def _put_each(rows: Sequence[ObjectiveState], before: Mapping[str, ObjectiveState], now: datetime) -> set[str]:
    others = set()
    for row in rows:
        try:
            with transaction.atomic():
                _upsert([row])
        except (DataError, ValueError) as error:
            log.warning("state.refused", key=row.key[:200], error=str(error))
            why = f"the result cannot be written: {error}"
            key = row.key.replace("\0", "␀")[:MAX_KEY_CHARS]
            _upsert([_unknown(key, row.objective_id, {}, why.replace("\0", "␀"), before.get(key), now)])
            others.add(key)
    return others


def _upsert(rows: Sequence[ObjectiveState]) -> None:
    ObjectiveState.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["key"], update_fields=_FIELDS, batch_size=100
    )


def _unknown(
    key: str, objective: int, scope: Mapping[str, str], why: str, before: ObjectiveState | None, now: datetime
) -> ObjectiveState:
    since = min(before.since, now) if before is not None and before.state == "unknown" else now
    return ObjectiveState(
        objective_id=objective,
        key=key,
        scope=dict(scope),
        at=now,
        state="unknown",
        since=since,
        document={"why": why},
    )


def _row(evaluation: Evaluation, objective: int, before: ObjectiveState | None, now: datetime) -> ObjectiveState | None:
    alert = evaluation.alert
    looks = (alert.state, alert.severity or "", alert.maintenance)
    same = before is not None and (before.state, before.severity, before.maintenance) == looks
    lasts = before is not None and (same or alert.state == before.state == "unknown")
    if before is not None and same and abs(now - before.at) < FRESH:  # a clock may have been set back
        return None
    return ObjectiveState(
        objective_id=objective,
        key=alert.key,
        scope=dict(alert.scope),
        at=now,
        state=alert.state,
        severity=alert.severity or "",
        maintenance=alert.maintenance,
        since=min(before.since, now) if before is not None and lasts else now,
        document=evaluation.document(),
    )
