"""Publishes the policy snapshot: a numbered revision in the database, then the file that gateways watch."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, OperationalError, connections, models, transaction
from django.db.models.signals import post_delete, post_save

from controlplane.fleet import scrape
from controlplane.fleet.core.snapshot import content_sha256, render
from controlplane.fleet.models import (
    GatewayKey,
    LLMModel,
    Pool,
    Region,
    Replica,
    SnapshotRevision,
    StageTimeouts,
    Tenant,
    Tier,
    Variant,
)
from controlplane.fleet.rows import fleet_values
from controlplane.observability.tracing import span
from inference.core import snapshot
from inference.policy import snapshot_file

log = structlog.get_logger(__name__)
_TRIES = 5

SOURCES: tuple[type[models.Model], ...] = (
    LLMModel,
    Variant,
    Pool,
    Region,
    Replica,
    Tier,
    Tenant,
    GatewayKey,
    StageTimeouts,
)
"""Models whose rows the snapshot is made of."""


def publish() -> SnapshotRevision:
    """Bring revision and file up to date with the fleet, if they are not, and return the revision in force.

    A lock beside the file keeps two processes of one machine from writing an older document over a newer one.
    """
    path: Path = settings.CONFIG.snapshot_file
    with span("publish the policy snapshot"), _locked(path):
        revision = _current_revision()
        if not path.is_file() or path.read_text() != revision.text:
            snapshot_file.write_text(path, revision.text.encode())
            log.info("snapshot.written", version=revision.version, path=str(path))
        scrape.write(settings.CONFIG)
        return revision


def _current_revision() -> SnapshotRevision:
    """The revision of the fleet as it is now, created where there is none. When another machine creates one at the same
    moment, the database refuses one of the two, and that one looks again.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            with _repeatable_read():
                return _find_or_make()
        except (IntegrityError, OperationalError):
            if not tries_left:
                raise
    raise AssertionError


def _find_or_make() -> SnapshotRevision:
    latest = SnapshotRevision.objects.first()
    document = render(fleet_values(), version=latest.version + 1 if latest else 1)
    digest = content_sha256(document)
    if latest is not None and latest.content_sha256 == digest:
        return latest
    text = snapshot.encode(document)
    _log_faults(text)
    return SnapshotRevision.objects.create(version=document.version, content_sha256=digest, text=text.decode())


def _log_faults(text: bytes) -> None:
    """Log the parts that gateways will refuse: rows may be written without a form. The rest is published all the same."""
    try:
        for fault in snapshot.check(text).faults:
            log.error("snapshot.part_refused", kind=fault.kind, name=fault.name, reason=fault.reason)
    except snapshot.SnapshotError as error:
        log.error("snapshot.refused", reason=str(error))  # noqa: TRY400  (the reason is all)


@contextmanager
def _repeatable_read() -> Iterator[None]:
    """A transaction in which all queries see the database as it was at one moment. Reading the fleet takes seven queries:
    an edit that is committed between two of them would be published by half. SQLite's transactions always do this.
    """
    connection = transaction.get_connection()
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def publish_on_commit(using: str) -> None:
    """Publish once after the current transaction, however many rows it changes.

    A failure to publish does not undo the change, which is committed. It is logged, and the worker tries again.
    """
    if any(entry[1] is _publish_logged for entry in connections[using].run_on_commit):
        return
    transaction.on_commit(_publish_logged, using=using)


def _publish_logged() -> None:
    try:
        publish()
    except Exception:
        log.exception("snapshot.publish_failed")


def _changed(sender: type[models.Model], using: str, **_: Any) -> None:
    publish_on_commit(using)


def connect() -> None:
    """Publish whenever one of SOURCES changes."""
    for model in SOURCES:
        for signal in (post_save, post_delete):
            signal.connect(_changed, sender=model, dispatch_uid=f"publish {model.__name__}")
