"""Put the policy snapshot in force: a numbered revision in the database, then the file that gateways watch."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connections, models, transaction
from django.db.models.signals import post_delete, post_save

from controlplane.fleet import scrape
from controlplane.fleet.models import (
    GatewayKey,
    LLMModel,
    Pool,
    Region,
    Replica,
    SnapshotRevision,
    StageBudgets,
    Tenant,
    Tier,
    Variant,
)
from controlplane.fleet.rows import fleet_values
from controlplane.fleet.snapshot import content_sha256, render
from controlplane.tracing import span
from inference import snapshot

log = structlog.get_logger(__name__)

SOURCES: tuple[type[models.Model], ...] = (
    LLMModel,
    Variant,
    Pool,
    Region,
    Replica,
    Tier,
    Tenant,
    GatewayKey,
    StageBudgets,
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
            snapshot.write(path, snapshot.decode(revision.text.encode()))
            log.info("policy snapshot written", version=revision.version, path=str(path))
        scrape.write(settings.CONFIG)
        return revision


@transaction.atomic
def _current_revision() -> SnapshotRevision:
    latest = SnapshotRevision.objects.first()
    document = render(fleet_values(), version=latest.version + 1 if latest else 1)
    digest = content_sha256(document)
    if latest is not None and latest.content_sha256 == digest:
        return latest
    return SnapshotRevision.objects.create(
        version=document.version, content_sha256=digest, text=snapshot.encode(document).decode()
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def publish_on_commit(using: str) -> None:
    """Publish once after the current transaction, however many rows it changes.

    Once committed a change cannot be undone by a failure to publish it: that is logged, and the worker tries again.
    """
    if any(entry[1] is _publish_logged for entry in connections[using].run_on_commit):
        return
    transaction.on_commit(_publish_logged, using=using)


def _publish_logged() -> None:
    try:
        publish()
    except Exception:
        log.exception("policy snapshot not published; the gateway keeps its last one", retry="by the worker")


def _changed(sender: type[models.Model], using: str, **_: Any) -> None:
    publish_on_commit(using)


def connect() -> None:
    """Publish whenever one of SOURCES changes."""
    for model in SOURCES:
        for signal in (post_save, post_delete):
            signal.connect(_changed, sender=model, dispatch_uid=f"publish {model.__name__}")
