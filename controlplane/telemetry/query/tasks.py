"""The store's scheduled task (see `controlplane/worker/schedule.py`)."""

import time

import structlog
from celery import shared_task

from controlplane.telemetry.query import answers
from controlplane.telemetry.store import StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)

LIMIT_S = 20.0
"""Seconds of each minute. After an upgrade a month of the ledger is sorted over some minutes, without slowing pages down."""


@shared_task  # type: ignore[untyped-decorator]
def presort() -> None:
    """Sort the half hours of the ledger that are over. After a failure, long pages are slower until the next run."""
    try:
        done = answers.store().presort(time.time_ns(), LIMIT_S)
    except (StoreUnavailableError, StoreError) as error:
        log.warning("ledger.presort_failed", reason=str(error), retry_after_s=60)
        return
    if done:
        log.info("ledger.presorted", half_hours=done)
