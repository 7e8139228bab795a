"""Observes all components every few seconds, for as long as the worker runs.

This is a thread and not a Celery task, because tasks travel through Redis, which is one of the components. Several
workers may observe at the same time: each writes the latest observation.
"""

import asyncio
import threading
import time

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from controlplane.fleet.observe.record import record
from controlplane.fleet.observe.round import TIMEOUT_S, look
from controlplane.fleet.observe.targets import targets
from controlplane.observability.tracing import span

log = structlog.get_logger(__name__)


def observe_once() -> None:
    """One round. Raises DatabaseError when it cannot be stored."""
    with span("observe the stack"):
        began = (
            timezone.now()
        )  # a component that does not answer was down from here on, and not from the end of its timeout
        seen = asyncio.run(look(targets(settings.CONFIG), TIMEOUT_S))
        record(seen, began)


class Observer(threading.Thread):
    """Daemon thread; `stop()` ends it after the round it is in."""

    def __init__(self) -> None:
        super().__init__(name="observer", daemon=True)
        self._stopping = threading.Event()

    def run(self) -> None:
        every_s = settings.CONFIG.observe_every_s
        while not self._stopping.is_set():
            began = time.monotonic()
            close_old_connections()
            try:
                observe_once()
            except DatabaseError as error:
                log.warning("observations.write_failed", reason=str(error))
            except Exception:
                log.exception("observations.round_failed")
            self._stopping.wait(max(0.0, began + every_s - time.monotonic()))
        close_old_connections()

    def stop(self) -> None:
        self._stopping.set()
