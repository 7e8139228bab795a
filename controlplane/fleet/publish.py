"""Publishes the policy snapshot: what owners entered as a numbered revision, then the document with endpoints and overlay,
in the database, where `serve` reads it for gateways elsewhere, and in the file that gateways of this machine watch.
"""

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog
from django.conf import settings
from django.db import IntegrityError, OperationalError, connections, models, transaction
from django.db.models.signals import post_delete, post_save

from controlplane.core.acting import acts
from controlplane.fleet import scrape
from controlplane.fleet.clusters.errors import StaleLeaderError
from controlplane.fleet.core.snapshot import content_sha256, endpoints_sha256, policy_of, render
from controlplane.fleet.models import (
    AllowedRegion,
    CachePurge,
    Fallback,
    GatewayKey,
    GuardRule,
    LLMModel,
    Pool,
    PublishedSnapshot,
    Region,
    Replica,
    RoutingRules,
    SnapshotRevision,
    StageTimeouts,
    Tenant,
    Tier,
    TimeoutRule,
    TokenIssuer,
    Variant,
)
from controlplane.fleet.snapshot_values import fleet_values, read_overlay
from controlplane.observability.tracing import span
from inference.contract import snapshot, snapshot_file
from inference.contract.gateway_signals import Obeyed
from inference.contract.rules import Overlay, RouteRule
from inference.contract.snapshot import Snapshot

log = structlog.get_logger(__name__)
_TRIES = 5
_ROW = 1  # the published document has one

SOURCES: tuple[type[models.Model], ...] = (
    LLMModel,
    Fallback,
    Variant,
    Pool,
    Region,
    Replica,
    Tier,
    Tenant,
    GatewayKey,
    StageTimeouts,
    TimeoutRule,
    RoutingRules,
    AllowedRegion,
    CachePurge,
    TokenIssuer,
    GuardRule,
)
"""Models whose rows the snapshot is made of."""


def publish(author: str = "") -> SnapshotRevision:
    """Bring revision, document and file up to date with the fleet, if they are not, and return the revision in force. `author`
    is who made a new one; empty is not known.

    A lock beside the file keeps two processes of one machine from writing an older document over a newer one.
    """
    return _publish(lambda _: None, author)[0]


def publish_overlay(overlay: Overlay, generation: int) -> int:
    """Have gateways obey `overlay` until it expires, and return its version, which grows when anything else of it changes.

    `generation` is that of the leader's lease. Raises StaleLeaderError where a later leader has written.
    """

    def change(row: PublishedSnapshot) -> None:
        if generation < row.generation:
            raise StaleLeaderError(
                f"The policy snapshot was last written by the leader of generation {row.generation}, and this process has "
                f"{generation}: another leads. If none does, Weir's database was set back: run `manage.py leader`."
            )
        if generation > row.generation:
            row.generation = generation
            row.save(update_fields=["generation"])
        if msgspec.structs.replace(overlay, version=row.overlay_version) != read_overlay(row.overlay):
            row.overlay_version += 1
            numbered = msgspec.structs.replace(overlay, version=row.overlay_version)
            row.overlay = msgspec.json.encode(numbered, order="deterministic").decode()

    return _publish(change)[1].overlay_version


def publish_rules(policy: str, rules: Sequence[RouteRule]) -> None:
    """Have gateways obey these rules of a routing policy instead of those they had of it; none removes them. They are in
    force once the current transaction is committed, as a revision.
    """
    if rules:
        text = msgspec.json.encode(rules).decode()
        RoutingRules.objects.update_or_create(policy=policy, defaults={"rules": text})
    else:
        for row in RoutingRules.objects.filter(policy=policy):
            row.delete()


def endpoints_version() -> int:
    """The version of the endpoints in force."""
    return PublishedSnapshot.objects.values_list("endpoints_version", flat=True).first() or 0


def last_overlay() -> Overlay:
    """What the controller had decided last, whether it has ended or not."""
    return read_overlay(PublishedSnapshot.objects.values_list("overlay", flat=True).first() or "")


def published_versions(now_ms: int) -> tuple[Obeyed, int]:
    """What gateways should obey now, and the number of the last overlay, whether it has ended or not."""
    row = PublishedSnapshot.objects.values_list("endpoints_version", "overlay_version", "overlay").first()
    version = SnapshotRevision.objects.values_list("version", flat=True).first() or 0
    endpoints_version, overlay_version, text = row or (0, 0, "")
    lasts = read_overlay(text).expires_ms > now_ms
    return Obeyed(version, endpoints_version, overlay_version if lasts else 0), overlay_version


def _publish(
    change: Callable[[PublishedSnapshot], None], author: str = ""
) -> tuple[SnapshotRevision, PublishedSnapshot]:
    """Publish the fleet as it is, after `change` of what is not of the fleet. Raises what `change` does."""
    path: Path = settings.CONFIG.snapshot_file
    with span("publish the policy snapshot"), _locked(path):
        revision, published = _in_force(change, author)
        if snapshot_file.write_changed(path, published.text.encode()):
            log.info(
                "snapshot.written",
                version=revision.version,
                endpoints=published.endpoints_version,
                overlay=published.overlay_version,
                path=str(path),
            )
        scrape.write(settings.CONFIG)
        return revision, published


def _in_force(change: Callable[[PublishedSnapshot], None], author: str) -> tuple[SnapshotRevision, PublishedSnapshot]:
    """The revision and the document of the fleet as it is now, created where there are none. When another machine does so at
    the same moment, the database refuses one of the two, and that one looks again.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            with _repeatable_read():
                PublishedSnapshot.objects.get_or_create(pk=_ROW)
                row = PublishedSnapshot.objects.select_for_update().get(pk=_ROW)
                change(row)
                latest = SnapshotRevision.objects.first()
                document = render(fleet_values(), version=latest.version + 1 if latest else 1)
                revision = _revision(document, latest, author)
                _renew(row, msgspec.structs.replace(document, version=revision.version))
                return revision, row
        except (IntegrityError, OperationalError):
            if not tries_left:
                raise
    raise AssertionError


def _revision(document: Snapshot, latest: SnapshotRevision | None, author: str) -> SnapshotRevision:
    digest = content_sha256(document)
    if latest is not None and latest.content_sha256 == digest:
        return latest
    text = snapshot.encode(policy_of(document)).decode()
    return SnapshotRevision.objects.create(version=document.version, content_sha256=digest, text=text, author=author)


def _renew(row: PublishedSnapshot, document: Snapshot) -> None:
    """Write the row where the document has changed."""
    digest = endpoints_sha256(document)
    if digest != row.endpoints_sha256:
        row.endpoints_sha256, row.endpoints_version = digest, row.endpoints_version + 1
    document = msgspec.structs.replace(
        document,
        endpoints_version=row.endpoints_version,
        overlay=read_overlay(row.overlay),
        written_ms=row.written_ms,
    )
    if row.text != snapshot.encode(document).decode():
        row.written_ms = max(time.time_ns() // 1_000_000, row.written_ms + 1)
        text = snapshot.encode(msgspec.structs.replace(document, written_ms=row.written_ms))
        _log_faults(text)
        row.text, row.etag = text.decode(), hashlib.sha256(text).hexdigest()
        row.save()


def _log_faults(text: bytes) -> None:
    """Log the parts that gateways will refuse: rows may be written without a form. The rest is published all the same."""
    try:
        for fault in snapshot.check(text, settings.CONFIG.backend_link_local).faults:
            log.error("snapshot.part_refused", kind=fault.kind, name=fault.name, reason=fault.reason)
    except snapshot.SnapshotError as error:
        log.error("snapshot.refused", reason=str(error))  # noqa: TRY400  (the reason is all)


@contextmanager
def _repeatable_read() -> Iterator[None]:
    """A transaction in which all queries see the database as it was at one moment. Reading the fleet takes a dozen queries:
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
        publish(acts())
    except Exception:
        log.exception("snapshot.publish_failed")


def _changed(sender: type[models.Model], using: str, **_: Any) -> None:
    publish_on_commit(using)


def connect() -> None:
    """Publish whenever one of SOURCES changes."""
    for model in SOURCES:
        for signal in (post_save, post_delete):
            signal.connect(_changed, sender=model, dispatch_uid=f"publish {model.__name__}")
