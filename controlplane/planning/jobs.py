"""Runs long work of planners in the worker, with progress, and takes it up again where a worker ended in the middle of it.

A job is a row. Any worker may claim a queued one, or one whose worker has not reported for LOST. One UPDATE decides who has it.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import structlog
from django.db import connection
from django.db.models import F, Q
from django.utils import timezone

from controlplane.core.formatting import shortened
from controlplane.core.periodic import PeriodicThread
from controlplane.planning.models import PlanJob
from controlplane.telemetry.store import StoreError, StoreUnavailableError

log = structlog.get_logger(__name__)

LOST = timedelta(seconds=60)
"""After so long without a sign of life its worker counts as ended."""
BEAT_S = 15.0
"""How often a worker gives one for each job that it runs, however seldom that reports."""
MAX_ATTEMPTS = 3
"""A job whose workers end so often is not begun again: it may be what ends them."""
AT_ONCE = 2
"""Jobs of one worker at a time. Its other threads keep observing, publishing and sending."""
REPORT_EVERY_S = 0.5
KEPT, SCHEDULED_KEPT = timedelta(days=30), timedelta(days=1)
"""How long ended jobs are kept: those that people started, or that failed, and scheduled ones."""

STATE = PlanJob.State
OPEN = (STATE.QUEUED, STATE.RUNNING)


class JobEndedError(Exception):
    """The job must stop now. Permanent."""


class JobCancelledError(JobEndedError):
    """Somebody cancelled it."""


class JobLostError(JobEndedError):
    """Another worker has taken it up."""


class JobStoppedError(JobEndedError):
    """This worker stops. The job goes back to the queue."""


class JobRefusedError(ValueError):
    """Permanent: no such job can be started. The message has the remedy."""


class Progress:
    """How a running job reports, and learns that it must end."""

    def __init__(self, job: PlanJob) -> None:
        self.job = job
        self._reported_s = 0.0

    def report(self, done: int, total: int, note: str = "") -> None:
        """Say how far the job is; written at most every REPORT_EVERY_S. How soon a job ends that was cancelled depends on it.

        Raises JobCancelledError, JobLostError or JobStoppedError.
        """
        if stopping.is_set():
            raise JobStoppedError("the worker stops")
        now_s = time.monotonic()
        if now_s - self._reported_s < REPORT_EVERY_S:
            return
        self._reported_s = now_s
        if not _mine(self.job).update(done=done, total=total, note=shortened(note, 300)):
            raise JobLostError("another worker has taken it up")
        if PlanJob.objects.filter(pk=self.job.pk, cancel_requested=True).exists():
            raise JobCancelledError("it was cancelled")


Work = Callable[[Mapping[str, Any], Progress], Mapping[str, Any]]
"""Takes the job's request, and returns its result: both are JSON."""

stopping = threading.Event()
"""Set while this worker shuts down."""

_kinds: dict[str, Work] = {}


def kind(name: str) -> Callable[[Work], Work]:
    """Register the work of a kind of job."""

    def registered(work: Work) -> Work:
        _kinds[name] = work
        return work

    return registered


def start(name: str, request: Mapping[str, Any] | None = None, author: str = "") -> PlanJob:
    """Queue a job, which a worker begins within seconds. An open job of the same kind and request is returned instead.

    Raises JobRefusedError.
    """
    if name not in _kinds:
        raise JobRefusedError(f"kind={name!r} is unknown: use one of {', '.join(sorted(_kinds))}")
    wanted = dict(request or {})
    same = PlanJob.objects.filter(kind=name, state__in=OPEN, cancel_requested=False, request=wanted).first()
    return same or PlanJob.objects.create(kind=name, request=wanted, author=author)


def cancel(job: PlanJob) -> None:
    """End it: at once if no worker runs it, else at its next report. An ended job stays as it is."""
    PlanJob.objects.filter(pk=job.pk, state=STATE.RUNNING).update(cancel_requested=True)
    PlanJob.objects.filter(pk=job.pk, state=STATE.QUEUED).update(
        state=STATE.CANCELLED, cancel_requested=True, ended_at=timezone.now()
    )
    job.refresh_from_db()


def run_queued() -> int:
    """Run open jobs until there are none. Returns how many were run; at most AT_ONCE run in a worker."""
    count, holder = 0, f"{socket.gethostname()}:{os.getpid()}"
    while not stopping.is_set() and (job := claim(holder)) is not None:
        run(job)
        count += 1
    return count


def claim(holder: str) -> PlanJob | None:
    """Take the oldest job that nobody runs; None where there is none, or where this worker has enough."""
    lost = timezone.now() - LOST
    if PlanJob.objects.filter(state=STATE.RUNNING, holder=holder, seen_at__gt=lost).count() >= AT_ONCE:
        return None
    free = Q(state=STATE.QUEUED) | Q(state=STATE.RUNNING, seen_at__lte=lost)
    for job in PlanJob.objects.filter(free).order_by("created_at", "pk"):
        if job.attempt >= MAX_ATTEMPTS:
            text = f"Its worker ended {job.attempt} times while it ran: see the worker's log."
            PlanJob.objects.filter(free, pk=job.pk).update(state=STATE.FAILED, error=text, ended_at=timezone.now())
            log.error("job.given_up", job=job.pk, kind=job.kind, attempts=job.attempt)
            continue
        now = timezone.now()
        taken = PlanJob.objects.filter(free, pk=job.pk, attempt=job.attempt).update(
            state=STATE.RUNNING, holder=holder, attempt=F("attempt") + 1, started_at=now, seen_at=now
        )
        if taken:
            job.refresh_from_db()
            return job
    return None


def run(job: PlanJob) -> None:
    """Run a claimed job to its end. Never raises: how it went is in its row and in the log."""
    began_s = time.monotonic()
    alive = PeriodicThread(f"job {job.pk}", lambda: _beat(job), BEAT_S)
    if not connection.in_atomic_block:  # within a transaction nobody sees the row, and a beat would wait for its end
        alive.start()
    try:
        state, fields = _outcome(job)
    finally:
        alive.stop()
        if alive.ident is not None:
            alive.join()
    if _mine(job).update(state=state, **fields):
        log.info("job.ended", job=job.pk, kind=job.kind, state=str(state), took_s=round(time.monotonic() - began_s, 3))


def tidy() -> int:
    """Delete jobs that ended too long ago. Returns how many."""
    now = timezone.now()
    scheduled = Q(author="", state=STATE.DONE, ended_at__lt=now - SCHEDULED_KEPT)
    return PlanJob.objects.filter(scheduled | Q(ended_at__lt=now - KEPT)).delete()[0]


def _outcome(job: PlanJob) -> tuple[PlanJob.State, dict[str, Any]]:
    now = timezone.now
    work = _kinds.get(job.kind)
    if work is None:
        return STATE.FAILED, {"error": f"This worker knows no job {job.kind!r}: is it older?", "ended_at": now()}
    if job.cancel_requested:
        return STATE.CANCELLED, {"ended_at": now()}
    try:
        result = dict(work(job.request, Progress(job)))
    except JobStoppedError:
        return STATE.QUEUED, {"holder": "", "attempt": job.attempt - 1, "note": "waits: its worker was stopped"}
    except JobCancelledError:
        return STATE.CANCELLED, {"ended_at": now()}
    except JobLostError as error:
        log.warning("job.lost", job=job.pk, kind=job.kind, reason=str(error))
        return STATE.RUNNING, {}
    except (StoreUnavailableError, StoreError) as error:
        log.warning("job.store_failed", job=job.pk, kind=job.kind, reason=str(error))
        return STATE.FAILED, {"error": shortened(str(error), 1000), "ended_at": now()}
    except Exception as error:
        log.exception("job.failed", job=job.pk, kind=job.kind)
        return STATE.FAILED, {"error": _text(error), "ended_at": now()}
    return STATE.DONE, {"result": result, "done": F("total"), "ended_at": now()}


def _text(error: Exception) -> str:
    text = str(error)
    return shortened(text if text and isinstance(error, ValueError) else f"{type(error).__name__}: {text}", 1000)


def _beat(job: PlanJob) -> None:
    _mine(job).update(seen_at=timezone.now())
    connection.close()  # of this thread, which ends with the job


def _mine(job: PlanJob) -> Any:
    """The row, while the claim holds."""
    return PlanJob.objects.filter(pk=job.pk, holder=job.holder, attempt=job.attempt, state=STATE.RUNNING)
