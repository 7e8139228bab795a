"""Stores the latest observation of each component, with rates since the one before."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from controlplane.core.formatting import shortened
from controlplane.fleet.models import Observation
from controlplane.fleet.observe.core.reading import rates
from controlplane.fleet.observe.round import Seen


@transaction.atomic
def record(seen: Iterable[Seen], now: datetime) -> None:
    """Replace the latest observations, and delete those of replicas and lanes that are no longer probed. `now`: when the round began."""
    before = {row.component: row for row in Observation.objects.all()}
    latest = [_observation(component, before.get(component.component), now) for component in seen]
    Observation.objects.bulk_create(
        latest,
        update_conflicts=True,
        unique_fields=["component"],
        update_fields=["kind", "state", "figures", "counters", "observed_at", "up_at", "down_since", "error", "about"],
    )
    kept = [row.component for row in latest]
    may_end = (Observation.Kind.REPLICA, Observation.Kind.LANE)
    Observation.objects.filter(kind__in=may_end).exclude(component__in=kept).delete()


def _observation(seen: Seen, before: Observation | None, now: datetime) -> Observation:
    reading = seen.reading
    since = rates(before.counters, reading.counters, (now - before.observed_at).total_seconds()) if before else {}
    is_down = reading.state == "down"
    return Observation(
        component=seen.component,
        kind=seen.kind,
        state=reading.state,
        figures={**since, **reading.figures},
        counters=dict(reading.counters),
        observed_at=now,
        up_at=(before.up_at if before else None) if is_down else now,
        down_since=((before.down_since if before else None) or now) if is_down else None,
        error=shortened(reading.error, 500),
        about=dict(reading.about) or (before.about if before else {}),  # kept while the gateway says nothing
    )
