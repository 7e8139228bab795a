"""What the worker does on a schedule (`controlplane/celery.py`). A task only schedules: the work is elsewhere."""

from celery import shared_task
from django.utils import timezone

from controlplane.fleet.models import Observation
from controlplane.fleet.publish import publish


@shared_task  # type: ignore[untyped-decorator]
def heartbeat() -> None:
    """Beat, broker and worker all work: nobody else could have written this."""
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
    """Repair: a change whose snapshot could not be written, or a file that somebody removed."""
    publish()
