"""The fleet's tasks on the worker's schedule (`controlplane/worker/schedule.py`)."""

from celery import shared_task
from django.utils import timezone

from controlplane.fleet.models import Observation
from controlplane.fleet.publish import publish


@shared_task  # type: ignore[untyped-decorator]
def heartbeat() -> None:
    """Store that beat, broker and worker work. Only a task that went through all three gets here."""
    Observation.objects.update_or_create(
        component="worker",
        defaults={
            "kind": Observation.Kind.WORKER,
            "state": Observation.State.UP,
            "observed_at": timezone.now(),
            "figures": {},
            "error": "",
        },
    )


@shared_task  # type: ignore[untyped-decorator]
def publish_snapshot() -> None:
    """Write the snapshot again where writing it failed or its file was removed."""
    publish()
