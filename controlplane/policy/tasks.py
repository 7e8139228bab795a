"""The policies' tasks on the worker's schedule (`controlplane/worker/schedule.py`)."""

from datetime import datetime, timedelta

import structlog
from celery import shared_task
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from controlplane.policy.models import Action, DecisionRecord

log = structlog.get_logger(__name__)

AT_ONCE = 1_000


@shared_task  # type: ignore[untyped-decorator]
def prune_decisions() -> None:
    """Remove decisions that are older than WEIR_DECISIONS_DAYS."""
    if removed := prune(timezone.now() - timedelta(days=settings.CONFIG.decisions_days)):
        log.info("decisions.pruned", rows=removed)


def prune(before: datetime) -> int:
    """Remove at most AT_ONCE actions that ended before then, and as many records of before then, with their changes, so that
    SQLite is not locked for long. The record of an action that is kept is kept too. Returns how many records and actions went.
    """
    ended = Action.objects.filter(ended_at__lt=before).order_by("ended_at").values_list("pk", flat=True)
    actions = Action.objects.filter(pk__in=list(ended[:AT_ONCE])).delete()[0]
    has_action = Exists(Action.objects.filter(decision=OuterRef("pk")))
    old = DecisionRecord.objects.filter(~has_action, at__lt=before).order_by("at").values_list("pk", flat=True)
    ids = list(old[:AT_ONCE])
    DecisionRecord.objects.filter(pk__in=ids).defer("packed").delete()
    return actions + len(ids)
