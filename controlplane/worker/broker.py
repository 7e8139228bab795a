"""Connects the worker to its broker, and connects again after a loss. Logs one event for the loss and one for its end.

Celery's own consumer logs each attempt. Its gossip step closes its channel through a connection that is None by then
(`celery/bootsteps.py`, 5.7), which raises an AttributeError. Gossip, mingle, event heartbeats and remote control are not
used, so they are off.
"""

import time
import warnings
from typing import Any

import structlog
from celery.exceptions import CPendingDeprecationWarning
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.state import maybe_shutdown

# Celery warns at each loss while worker_cancel_long_running_tasks_on_connection_loss is false, even where it is set. The
# warning is attributed to the caller, which is this module.
warnings.filterwarnings("ignore", category=CPendingDeprecationWarning, module=__name__)

log = structlog.get_logger(__name__)

UNUSED = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}
MAX_WAIT_S = 5
"""Between two attempts to connect."""


class Consumer(CeleryConsumer):  # type: ignore[misc]
    """For the setting `worker_consumer`."""

    lost_at_s: float | None = None  # monotonic; None while connected

    def __init__(self, *args: Any, worker_options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, worker_options={**(worker_options or {}), **UNUSED}, **kwargs)

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        self._lost(exc)
        super().on_connection_error_after_connected(exc)

    def on_connection_error_before_connected(self, exc: BaseException) -> None:
        self._lost(exc)

    def ensure_connected(self, conn: Any) -> Any:
        """Blocks until there is a connection or the worker is stopped."""
        connection = conn.ensure_connection(self._failed, None, interval_max=MAX_WAIT_S, callback=maybe_shutdown)
        self.first_connection_attempt = False
        if self.lost_at_s is not None:
            log.info("broker.reconnected", broker=conn.as_uri(), away_s=round(time.monotonic() - self.lost_at_s, 1))
            self.lost_at_s = None
        return connection

    def _failed(self, exc: BaseException, interval_s: float) -> None:
        self._lost(exc)

    def _lost(self, exc: BaseException) -> None:
        if self.lost_at_s is None:
            self.lost_at_s = time.monotonic()
            log.error(
                "broker.lost",
                broker=self.conninfo.as_uri(),
                reason=str(exc) or type(exc).__name__,
                meanwhile="scheduled tasks wait; pages go out and replicas are observed as before; reconnects by itself",
            )
