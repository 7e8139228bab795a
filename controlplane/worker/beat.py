"""Runs Celery's beat in any number of workers (`-B`): only the holder of a lease in the database sends tasks.

A holder that dies is replaced once its lease has ended. Nothing is kept on disk: a new holder sends each task once, and
then by its period.
"""

import os
import socket
from datetime import timedelta
from typing import Any

import structlog
from billiard.process import current_process  # type: ignore[import-untyped]
from celery.beat import ScheduleEntry, Scheduler
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

log = structlog.get_logger(__name__)

LEASE = "beat"
EMBEDDED = "Beat"
"""Celery's name for the process of a beat that belongs to a worker."""
LASTS = timedelta(seconds=15)
STANDBY_S = 2.0
"""How often every beat tries to take or keep the lease."""


class Beat(Scheduler):  # type: ignore[misc]
    """For the setting `beat_scheduler`. `holder` is this process's name in the lease."""

    producer = None
    """None: tasks are sent through the application's own connections, which give up after a second while the broker is away."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        self.leads = False
        self.parent = os.getppid() if current_process().name == EMBEDDED else None
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Seconds until the next tick. Sends at most one task, and none without the lease."""
        if self.parent is not None and os.getppid() != self.parent:
            raise SystemExit  # its worker was killed; a new worker starts a beat of its own
        if not self._keep_lease():
            return STANDBY_S
        self._forget_the_future()
        return float(min(STANDBY_S, super().tick(*args, **kwargs)))

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send the task, or skip it until its next time while the broker is away. The worker logs that it is away."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001  (whatever the broker's client raises)
            log.debug("beat.send_failed", task=entry.task, reason=str(error))

    def _forget_the_future(self) -> None:
        """Once the clock was set back, tasks would wait until it is again what it was."""
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > entry.default_now()]
        for entry in ahead:
            entry.last_run_at = entry.default_now()
        if ahead:
            self._heap = None

    def _keep_lease(self) -> bool:
        """Whether this beat holds the lease. While the database is away no beat does: the tasks need the database too."""
        from controlplane.core import lease

        try:
            close_old_connections()
            leads = lease.take(LEASE, self.holder, timezone.now(), LASTS) > 0
        except DatabaseError as error:
            leads = False
            if self.leads:
                log.warning("beat.lease_lost", reason=str(error))
        if leads and not self.leads:
            log.info("beat.lease_taken", holder=self.holder)
        self.leads = leads
        return leads
