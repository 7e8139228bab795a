"""Threads that do one thing every few seconds, or when they are woken, for as long as their process runs."""

import threading
import time
from collections.abc import Callable

import structlog
from django.db import DatabaseError, close_old_connections

from controlplane.core.seldom import Seldom

log = structlog.get_logger(__name__)


class PeriodicThread(threading.Thread):
    """Daemon thread that calls `work` at once and then every `every_s` seconds, or whenever it is woken. None: only when it is woken.

    An exception is logged, each minute while it comes, and does not end the thread; of what is `expected`, beside a database that does
    not answer, the reason alone. Before each call, connections to the database that have failed are closed: it may have restarted since.
    """

    def __init__(
        self, name: str, work: Callable[[], None], every_s: float | None, expected: tuple[type[Exception], ...] = ()
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._every_s = work, every_s
        self._expected: tuple[type[Exception], ...] = (DatabaseError, *expected)
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._seldom = Seldom()

    def wake(self) -> None:
        """Have `work` called at once, or once more after the call it is at."""
        self._woken.set()

    def stop(self) -> None:
        """End after the call it is at."""
        self._stopping.set()
        self._woken.set()

    def run(self) -> None:
        if self._every_s is None:
            self._woken.wait()
        while not self._stopping.is_set():
            self._woken.clear()
            if self._stopping.is_set():  # it was woken to end
                break
            began_s = time.monotonic()
            self._call()
            self._woken.wait(None if self._every_s is None else max(0.0, began_s + self._every_s - time.monotonic()))
        close_old_connections()

    def _call(self) -> None:
        try:
            close_old_connections()
            self._work()
        except Exception as error:
            if not self._seldom.fails(error):
                return
            if isinstance(error, self._expected):
                log.warning("thread.failed", thread=self.name, reason=str(error))
            else:
                log.exception("thread.failed", thread=self.name)
        else:
            if self._seldom.works():
                log.info("thread.works_again", thread=self.name)
