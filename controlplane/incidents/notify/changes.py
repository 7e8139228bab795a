"""Records changes (policy revisions, deployments) and notifies of each once. Incidents show the changes before them."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.core.acting import actor
from controlplane.core.formatting import shortened
from controlplane.fleet.changes import WEIR
from controlplane.fleet.core.revision_words import changed
from controlplane.fleet.models import SnapshotRevision
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify.core.notice import Change, Link
from controlplane.incidents.notify.delivery import enqueue

FIRST_REVISION = 1
"""The revision of the first start. It changed nothing, so it is no change that an incident could come from."""
MAX_SUMMARY = 300
"""Characters of what a revision changed: it stands in the texts of pages."""
NOTIFY_WITHIN = timedelta(hours=1)
"""An older revision is recorded, and nobody is notified: it was made before Weir ran."""


def announce(now: datetime) -> None:
    """Record the policy revisions of people that are not recorded yet. Safe to call from several processes.

    What Weir itself changes is recorded by who decides it (`fleet.changes`).
    """
    known = ChangeRecord.objects.filter(source="policy").order_by("-at").first()
    newer = SnapshotRevision.objects.filter(version__gt=FIRST_REVISION).exclude(author__startswith=WEIR)
    if known is not None:
        newer = newer.filter(created_at__gte=known.at)
    for revision in newer.defer("text").order_by("version"):
        identity = f"policy-revision/{revision.version}"
        if not ChangeRecord.objects.filter(identity=identity).exists():
            record(
                identity=identity,
                summary=_summary(revision),
                source="policy",
                at=revision.created_at,
                notify=now - revision.created_at <= NOTIFY_WITHIN,
            )


def _summary(revision: SnapshotRevision) -> str:
    """`policy revision 14 by ann: pool chat-large-local: max_queue 256 → 0`."""
    name = f"policy revision {revision.version}" + (f" by {revision.author}" if revision.author else "")
    before = SnapshotRevision.objects.filter(version__lt=revision.version).order_by("-version").first()
    what = changed(json.loads(before.text), json.loads(revision.text)) if before is not None else ""
    return shortened(": ".join(part for part in (name, what) if part), MAX_SUMMARY)


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


def broke_the_glass(signal: object, sender: object, user: Any, **_: Any) -> None:
    """Notify of a log-in by a break-glass account."""
    at = timezone.now()
    summary = (
        f"{user.get_username()} logged in by a break-glass account, from {actor().address or 'an unknown address'}"
    )
    record(f"break-glass/{user.pk}/{at.isoformat()}", summary, "log-in", at)
