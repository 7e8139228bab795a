"""Fills a store with synthetic weeks, so that long pages, forecasts and plans can be seen alive; or removes them."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.planning import demo, jobs
from controlplane.planning.models import PlanJob

POLL_S = 0.5
BEGINS_WITHIN_S = 30.0
"""A worker that runs begins a job within seconds."""


class Command(BaseCommand):
    help = (
        "Write synthetic weeks of demand and latency before the oldest real request. Pages say that they are made up. "
        "Nothing is written to the ledger: they are rollups only, and --delete removes them all. The forecasts are then made anew. "
        "The worker of the running Weir does both."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--weeks", type=int, default=5, help="How many, 1 to 52.")
        parser.add_argument("--requests-per-s", type=float, default=2.0, help="The mean over all models.")
        parser.add_argument("--seed", type=int, default=1, help="The same seed gives the same weeks.")
        parser.add_argument("--delete", action="store_true", help="Remove all synthetic weeks.")

    def handle(self, **options: Any) -> None:
        wanted = {name: options[name] for name in ("weeks", "requests_per_s", "seed")}
        if not options["delete"]:
            try:
                demo.check(wanted["weeks"], wanted["requests_per_s"])
            except demo.DemoRefusedError as error:
                raise CommandError(str(error)) from error
        job = jobs.start(demo.KIND, demo.DELETE if options["delete"] else wanted, "manage.py")
        self._follow(job, "half days")
        remedy = "" if options["delete"] else "; remove them with --delete"
        self.stdout.write(f"{job.result['note']}: {job.result['requests']:,} synthetic requests{remedy}")
        forecasts = PlanJob.objects.get(pk=job.result["forecasts_job"])
        self._follow(forecasts, "forecasts")
        self.stdout.write(f"{forecasts.result['renewed']} forecasts are made anew, {forecasts.result['failed']} failed")

    def _follow(self, job: PlanJob, what: str) -> None:
        """Wait until the job has ended, and write how far it is on the way. Raises CommandError where it is not done, or no worker runs."""
        said, moved_s = "", time.monotonic()
        while not job.ended:
            if job.state == PlanJob.State.QUEUED and time.monotonic() - moved_s > BEGINS_WITHIN_S:
                raise CommandError(
                    f"no worker has begun job {job.pk} within {BEGINS_WITHIN_S:g} s: does Weir run, with this WEIR_HOME or "
                    "WEIR_DATABASE_URL? The job waits for one"
                )
            progress = f"{job.done} of {job.total} {what}" if job.total else job.get_state_display().lower()
            if progress != said:
                self.stdout.write(progress)
                self.stdout.flush()
                said, moved_s = progress, time.monotonic()
            elif time.monotonic() - moved_s > BEGINS_WITHIN_S:
                self.stdout.write(f"no progress for {BEGINS_WITHIN_S:g} s: does a worker run?")
                self.stdout.flush()
                moved_s = time.monotonic()
            time.sleep(POLL_S)
            job.refresh_from_db()
        if job.state != PlanJob.State.DONE:
            raise CommandError(job.error or f"job {job.pk} was {job.state}")
