"""Celery's beat, safe in any number of workers: every worker may run it (`-B`), and whoever holds the lease sends.

A holder that dies is replaced once its lease has ended. Nothing is kept on disk: after a change of holder each task is sent once at once,
and then by its period.
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
"""How often one that does not hold the lease asks for it, and one that does keeps it."""


class Beat(Scheduler):  # type: ignore[misc]
    """For the setting `beat_scheduler`. `holder` is who asks for the lease."""

    producer = None
    """Tasks are sent through the application's own connections, which try for a second and do not wait for a broker that is away."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        self.leads = False
        self.parent = os.getppid() if current_process().name == EMBEDDED else None
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Seconds until the next tick. Sends at most one task, and none without the lease."""
        if self.parent is not None and os.getppid() != self.parent:
            raise SystemExit  # its worker was killed, and started anew it has another
        if not self._keep_lease():
            return STANDBY_S
        return float(min(STANDBY_S, super().tick(*args, **kwargs)))

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Should the broker be away, the task is sent at its next time: the worker says that it is away."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001  (whatever the broker's client raises)
            log.debug("beat.not_sent", task=entry.task, reason=str(error))

    def _keep_lease(self) -> bool:
        """Nobody sends while the database is away: the tasks are about what is in it."""
        from controlplane.slo.evaluate import lease

        try:
            close_old_connections()
            leads = lease.take(LEASE, self.holder, timezone.now(), LASTS) > 0
        except DatabaseError as error:
            leads = False
            if self.leads:
                log.warning("beat.stood_down", reason=str(error))
        if leads and not self.leads:
            log.info("beat.leads", holder=self.holder)
        self.leads = leads
        return leads
