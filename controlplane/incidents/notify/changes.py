"""Records changes (policy revisions, deployments) and notifies of each once. Incidents show the changes before them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from controlplane.fleet.models import SnapshotRevision
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify.core.notice import Change, Link
from controlplane.incidents.notify.delivery import enqueue

FIRST_REVISION = 1
"""The revision of the first start. It changed nothing, so it is no change that an incident could come from."""
NOTIFY_WITHIN = timedelta(hours=1)
"""An older revision is recorded, and nobody is notified: it was made before Weir ran."""


def announce(now: datetime) -> None:
    """Record the policy revisions that are not recorded yet. Safe to call from several processes."""
    known = ChangeRecord.objects.filter(source="policy").order_by("-at").first()
    newer = SnapshotRevision.objects.filter(version__gt=FIRST_REVISION).order_by("version")
    if known is not None:
        newer = newer.filter(created_at__gte=known.at)
    for revision in newer:
        record(
            identity=f"policy-revision/{revision.version}",
            summary=f"policy revision {revision.version}" + (f" by {revision.author}" if revision.author else ""),
            source="policy",
            at=revision.created_at,
            notify=now - revision.created_at <= NOTIFY_WITHIN,
        )


def record(
    identity: str,
    summary: str,
    source: str,
    at: datetime,
    team: str = "",
    scope: Mapping[str, str] | None = None,
    link: str = "",
    notify: bool = True,
) -> bool:
    """Record a change and notify of it. False where its `identity` is recorded already."""
    if ChangeRecord.objects.filter(identity=identity).exists():
        return False
    try:
        with transaction.atomic():
            ChangeRecord.objects.create(
                identity=identity, summary=summary, source=source, at=at, team=team, scope=dict(scope or {}), link=link
            )
            if notify:
                links = (Link(link, summary),) if link else ()
                enqueue(
                    Change(summary=summary, source=source, at=at, team=team, details=dict(scope or {}), links=links)
                )
    except IntegrityError:
        return False
    return True


def take(signal: object, sender: object, **change: Any) -> None:
    """Record what another part says that it changed (`controlplane.fleet.changes`)."""
    record(**change)
