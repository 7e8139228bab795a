"""The plan's tasks on the worker's schedule (`controlplane/worker/schedule.py`)."""

from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down

from controlplane.planning import jobs, measured, refresh


@shared_task  # type: ignore[untyped-decorator]
def run_jobs() -> None:
    """Run what is queued, and what a worker that ended has left."""
    jobs.run_queued()


@shared_task  # type: ignore[untyped-decorator]
def refresh_if_due() -> None:
    """Queue a refresh of the forecasts, and the measuring of pools, once their periods are over; remove what is too old."""
    refresh.queue_if_due()
    measured.queue_if_due()
    jobs.tidy()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop(**_: Any) -> None:
    jobs.stopping.set()
