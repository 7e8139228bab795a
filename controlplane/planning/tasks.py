"""The plan's tasks on the worker's schedule (`controlplane/worker/schedule.py`)."""

from typing import Any

import structlog
from celery import shared_task
from celery.signals import worker_shutting_down

from controlplane.planning import jobs

log = structlog.get_logger(__name__)


@shared_task  # type: ignore[untyped-decorator]
def run_jobs() -> None:
    """Run what is queued, and what a worker that ended has left."""
    jobs.run_queued()


def wake() -> None:
    """Have a worker look for queued jobs at once. Without a broker it looks within seconds, by its schedule."""
    try:
        run_jobs.apply_async(expires=30, retry=False)
    except Exception as error:  # noqa: BLE001  (whatever the broker's client raises)
        log.debug("jobs.wake_failed", reason=str(error))


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop(**_: Any) -> None:
    jobs.stopping.set()
