"""What was changed: told to the outside once each, and remembered, so that an incident can say what came before it."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from controlplane.fleet.models import SnapshotRevision
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify.core.notice import Change, Link
from controlplane.incidents.notify.delivery import enqueue

FIRST_REVISION = 1
"""Of the first start, which changed nothing: it is not remembered as a change, and no incident is blamed on it."""
NEWS = timedelta(hours=1)
"""A revision older than this was made before anybody listened: it is remembered, and told to nobody."""


def announce(now: datetime) -> None:
    """Policy revisions that are not known yet. Safe to call from several processes."""
    known = ChangeRecord.objects.filter(source="policy").order_by("-at").first()
    newer = SnapshotRevision.objects.filter(version__gt=FIRST_REVISION).order_by("version")
    if known is not None:
        newer = newer.filter(created_at__gte=known.at)
    for revision in newer:
        record(
            identity=revision_identity(revision.version),
            summary=f"policy revision {revision.version}",
            source="policy",
            at=revision.created_at,
            tell=now - revision.created_at <= NEWS,
        )


def revision_identity(version: int) -> str:
    return f"policy-revision/{version}"


def record(
    identity: str,
    summary: str,
    source: str,
    at: datetime,
    team: str = "",
    scope: Mapping[str, str] | None = None,
    link: str = "",
    tell: bool = True,
) -> bool:
    """Remember a change and tell of it; False where its `identity` is known already."""
    if ChangeRecord.objects.filter(identity=identity).exists():
        return False
    try:
        with transaction.atomic():
            ChangeRecord.objects.create(
                identity=identity, summary=summary, source=source, at=at, team=team, scope=dict(scope or {}), link=link
            )
            if tell:
                links = (Link(link, summary),) if link else ()
                enqueue(
                    Change(summary=summary, source=source, at=at, team=team, details=dict(scope or {}), links=links)
                )
    except IntegrityError:
        return False
    return True
