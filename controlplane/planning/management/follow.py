"""Follows a job of the plan from a terminal."""

import time
from collections.abc import Callable

from django.core.management.base import CommandError, OutputWrapper

from controlplane.planning.models import PlanJob

POLL_S = 0.5
BEGINS_WITHIN_S = 30.0
"""A worker that runs begins a job within seconds."""


def ended(job: PlanJob, out: OutputWrapper, words: Callable[[PlanJob], str]) -> None:
    """Wait until the job has ended, and write how far it is on the way. Raises CommandError where it is not done, or no worker runs."""
    said, began_s = "", time.monotonic()
    while not job.ended:
        if job.state == PlanJob.State.QUEUED and time.monotonic() - began_s > BEGINS_WITHIN_S:
            raise CommandError(
                f"no worker has begun job {job.pk} within {BEGINS_WITHIN_S:g} s: does Weir run, with this WEIR_HOME or "
                "WEIR_DATABASE_URL? The job waits for one"
            )
        progress = words(job) or job.get_state_display().lower()
        if progress != said:
            out.write(progress)
            out.flush()
            said = progress
        time.sleep(POLL_S)
        job.refresh_from_db()
    if job.state != PlanJob.State.DONE:
        raise CommandError(job.error or f"job {job.pk} was {job.state}")
