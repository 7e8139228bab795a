"""The policies' tasks on the worker's schedule (`controlplane/worker/schedule.py`)."""

from datetime import timedelta

import structlog
from celery import shared_task
from django.conf import settings
from django.utils import timezone

from controlplane.policy.prune import prune

log = structlog.get_logger(__name__)


@shared_task  # type: ignore[untyped-decorator]
def prune_decisions() -> None:
    """Remove decisions that are older than WEIR_DECISIONS_DAYS."""
    if removed := prune(timezone.now() - timedelta(days=settings.CONFIG.decisions_days)):
        log.info("decisions.pruned", rows=removed)
