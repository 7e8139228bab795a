"""Brings the incidents of components up to date with what was observed, every few seconds.

It is a thread of the worker, which also observes and sends pages: the page of a component that is down needs neither the controller nor
telemetry, the store or Redis. Several workers may run it; a row lock lets one decide at a time.
"""

import threading
import time
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

from controlplane.incidents.components import observed
from controlplane.incidents.components.core import judge
from controlplane.incidents.decide import engine, rows
from controlplane.incidents.decide.core.steps import Rules
from controlplane.incidents.notify.delivery.models import Heartbeat

log = structlog.get_logger(__name__)

LOOK_S = 5.0


@transaction.atomic
def look(watching_since: datetime, now: datetime) -> None:
    """One look. `watching_since`: when the process began to look. Raises DatabaseError."""
    config = settings.CONFIG
    Heartbeat.objects.get_or_create(name=Heartbeat.COMPONENTS, defaults={"at": now})
    row = Heartbeat.objects.select_for_update().get(name=Heartbeat.COMPONENTS)
    seen = observed.read(watching_since, config.operated_by)
    alerts = judge.alerts(seen, rows.of_components().keys(), now, observed.limits(config))
    engine.observe_components(alerts, now, Rules(hold=timedelta(seconds=config.component_up_for_s)))
    row.at = now
    row.save()


class ComponentWatch(threading.Thread):
    """Daemon thread; `stop()` ends it after the look it is at."""

    def __init__(self, look_s: float = LOOK_S) -> None:
        super().__init__(name="components", daemon=True)
        self._look_s = look_s
        self._stopping = threading.Event()

    def run(self) -> None:
        watching_since = timezone.now()
        while not self._stopping.is_set():
            due = time.monotonic() + self._look_s
            close_old_connections()
            try:
                look(watching_since, timezone.now())
            except DatabaseError as error:
                log.warning("component_watch.database_failed", error=str(error), retry_s=self._look_s)
            except Exception:
                log.exception("component_watch.failed", retry_s=self._look_s)
            self._stopping.wait(max(0.0, due - time.monotonic()))
        close_old_connections()

    def stop(self) -> None:
        self._stopping.set()
