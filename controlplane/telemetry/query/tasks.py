"""What the worker does for the store on a schedule (`controlplane/celery.py`). A task only schedules: the work is elsewhere."""

import time

import structlog
from celery import shared_task

from controlplane.telemetry.query import answers
from controlplane.telemetry.store import StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)

MOST_S = 20.0
"""Of a minute: after an upgrade a month of the ledger is sorted over some minutes, and not at the cost of pages."""


@shared_task  # type: ignore[untyped-decorator]
def sort_pieces() -> None:
    """Sort the parts of the ledger that are over. Should it fail, long pages are slower until the next minute tries again."""
    try:
        done = answers.store().sort_pieces(time.time_ns(), MOST_S)
    except (StoreUnavailableError, StoreError) as error:
        log.warning("ledger.not_sorted", reason=str(error), retry_after_s=60)
        return
    if done:
        log.info("ledger.sorted", pieces=done)
