"""Writes a revision of the fleet for every change of it, in the transaction of the change, and reads the fleet as it was at one.

A save or a delete only notes which documents it touches. They are written once, when the transaction is about to be committed. Django has
no signal for that moment, so the connection's `commit` is wrapped.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Max, OuterRef, Q, QuerySet, Subquery

from controlplane.accounts import rights
from controlplane.accounts.core.rule import Owned
from controlplane.core.acting import actor
from controlplane.core.changes import watch
from controlplane.core.documents.plan import conflict_with, is_managed
from controlplane.fleet.files.kinds import KINDS, Key, roots_of, texts_of
from controlplane.fleet.models import FleetChange, FleetRevision

_OTHERS, _COMMIT = "_named_before", "_commit_without_revisions"


class Reason(NamedTuple):
    """What is known of a change beside what differs. `label` None: each document keeps its own."""

    label: str | None = None
    note: str = ""
    restores: int | None = None
    author: str = ""


NO_REASON = Reason()
_touched: ContextVar[list[Owned] | None] = ContextVar("whose the rows are that are changed", default=None)
_reason: ContextVar[Reason] = ContextVar("reason of a change of the fleet", default=NO_REASON)


@contextmanager
def because(reason: Reason) -> Iterator[None]:
    token = _reason.set(reason)
    try:
        yield
    finally:
        _reason.reset(token)


@contextmanager
def touching() -> Iterator[list[Owned]]:
    """Whose each row is that is changed inside, as it was and as it is."""
    touched: list[Owned] = []
    token = _touched.set(touched)
    try:
        yield touched
    finally:
        _touched.reset(token)


def _touch(row: models.Model | None) -> None:
    if row is not None and (touched := _touched.get()) is not None:
        touched.append(rights.owned(row))


@dataclass(frozen=True)
class _Noted:
    """Waits for the commit among Django's callbacks, which forget it with the savepoint or transaction that is rolled back."""

    key: Key | None
    reason: Reason
    revision: FleetRevision | None = None

    def __call__(self) -> None:
        """It is committed."""


def note(key: Key, using: str = "default") -> None:
    """The transaction may have changed this document."""
    transaction.on_commit(_Noted(key, _reason.get()), using=using)


def noted(using: str = "default") -> int:
    """A mark of the present moment of the transaction, for `differing`."""
    return len(connections[using].run_on_commit)


def differing(since: int, using: str = "default") -> dict[Key, str]:
    """The documents that differ from the newest revision of those that were touched since a mark; empty texts: they are removed."""
    entries = [entry[1] for entry in connections[using].run_on_commit[since:]]
    keys = dict.fromkeys(each.key for each in entries if isinstance(each, _Noted) and each.key)
    newest = _newest(keys)
    return {key: text for key, text in texts_of(keys).items() if text != (newest[key].text if key in newest else "")}


def connect() -> None:
    """From now on every change of what people enter is recorded."""
    for table in _tables():
        watch(
            table,
            "fleet revision",
            before_save=_before_save,
            saved=_saved,
            before_delete=_before_delete,
            deleted=_deleted,
            linked=_linked,
        )
    connection_created.connect(_wrap, dispatch_uid="fleet revision at the commit")
    for connection in connections.all(initialized_only=True):
        _wrap(None, connection)


def _wrap(sender: Any, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if not hasattr(connection, _COMMIT):
        setattr(connection, _COMMIT, connection.commit)
        connection.commit = lambda: _commit(connection)  # type: ignore[method-assign]


def _commit(connection: BaseDatabaseWrapper) -> None:
    """Where the revision cannot be written, the change is not made."""
    if any(isinstance(entry[1], _Noted) for entry in connection.run_on_commit):
        connection.in_atomic_block = True  # Django has ended the block just before
        try:
            write(connection.alias)
        except BaseException:
            connection.in_atomic_block = False
            connection.rollback()
            raise
        connection.in_atomic_block = False
    getattr(connection, _COMMIT)()


def write(using: str = "default") -> FleetRevision | None:
    """Write the revision of what the transaction has changed until now; None where that is nothing. Once more adds to it.

    The audit's lock, which each change of the fleet takes first, keeps two transactions from taking one number.
    """
    noted = [entry[1] for entry in connections[using].run_on_commit if isinstance(entry[1], _Noted)]
    revision = next((each.revision for each in noted if each.revision), None)
    reasons = {each.key: each.reason for each in noted if each.key}
    texts, newest, changes = texts_of(reasons), _newest(reasons), list[FleetChange]()
    for key, reason in reasons.items():
        text, before = texts[key], newest.get(key)
        kept = before.label if before and (before.text or reason.restores) else ""
        label = kept if reason.label is None else reason.label
        if before is None and not text:
            continue
        drifted = reason.label is None and is_managed(label)
        if before is not None and before.text == text:
            drifted = drifted and before.drifted
            if not text or (before.label, before.drifted) == (label, drifted):
                continue
        if revision is None:
            revision = _begun(using, reason)
        changes.append(
            FleetChange(revision=revision, kind=key[0], name=key[1], text=text, label=label, drifted=drifted)
        )
    FleetChange.objects.bulk_create(
        changes,
        update_conflicts=True,
        unique_fields=["kind", "name", "revision"],
        update_fields=["text", "label", "drifted"],
    )
    return revision


def _begun(using: str, reason: Reason) -> FleetRevision:
    by = actor()
    last = FleetRevision.objects.aggregate(last=Max("number"))["last"] or 0
    made = FleetRevision.objects.create(
        number=last + 1,
        author=reason.author or by.who,
        via=by.via[:100],
        note=reason.note[:500],
        restores=reason.restores,
    )
    transaction.on_commit(_Noted(None, reason, made), using=using)
    return made


def _before_save(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    """Of a row that gets another name, or goes to another row."""
    stored = sender._default_manager.filter(pk=instance.pk).first() if instance.pk else None
    _touch(stored)
    setattr(instance, _OTHERS, list(_keys(stored)) if stored else [])


def _saved(sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
    _touch(instance)
    before: list[Key] = getattr(instance, _OTHERS, [])
    keys = list(_keys(instance))
    if before and set(before) != set(keys):
        keys += [*before, *(key for row in _naming(instance) for key in _keys(row))]
    for key in dict.fromkeys(keys):
        note(key, using)


def _before_delete(sender: type[models.Model], instance: models.Model, **_: Any) -> None:
    _touch(instance)
    setattr(instance, _OTHERS, [key for row in (instance, *_naming(instance)) for key in _keys(row)])


def _deleted(sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
    for key in dict.fromkeys(getattr(instance, _OTHERS, [])):
        note(key, using)


def _linked(sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
    with transaction.atomic(using=using):
        for key in _keys(instance):
            note(key, using)


def _keys(row: models.Model) -> Iterator[Key]:
    yield from ((kind.name, kind.name_of(root)) for kind, root in roots_of(row))


def _naming(row: models.Model) -> Iterator[models.Model]:
    """The rows whose documents have the name of this one."""
    for relation in row._meta.get_fields(include_hidden=True):
        if isinstance(relation, models.ManyToOneRel | models.ManyToManyRel) and relation.field.model in _tables():
            yield from relation.field.model._default_manager.filter(**{relation.field.name: row.pk})


def _tables() -> set[type[models.Model]]:
    return {table for kind in KINDS.values() for table in (kind.table, *(each.table for each in kind.lists.values()))}


def changes_until(number: int | None = None) -> QuerySet[FleetChange]:
    """The last change of each document until this revision, removed ones too; of all, the fleet as it is."""
    until = Q() if number is None else Q(revision__lte=number)
    newest = FleetChange.objects.filter(until, kind=OuterRef("kind"), name=OuterRef("name")).order_by("-revision_id")
    return FleetChange.objects.filter(pk=Subquery(newest.values("pk")[:1]))


def _newest(keys: Collection[Key]) -> dict[Key, FleetChange]:
    """The last change of each of these documents."""
    rows = changes_until().filter(kind__in={kind for kind, _ in keys}, name__in={name for _, name in keys})
    return {(each.kind, each.name): each for each in rows if (each.kind, each.name) in keys}


def texts_at(number: int | None = None) -> dict[Key, str]:
    """The documents of the fleet at a revision, in the order in which they are made."""
    rows = changes_until(number).exclude(text="")
    kinds = list(KINDS)
    return {(row.kind, row.name): row.text for row in sorted(rows, key=lambda row: (kinds.index(row.kind), row.name))}


def labels() -> dict[Key, str]:
    """The owner labels of the documents that there are."""
    rows = changes_until().exclude(text="").values_list("kind", "name", "label")
    return {(kind, name): label for kind, name, label in rows}


def drifts() -> QuerySet[FleetChange]:
    """The last changes of documents that are managed elsewhere, and were changed here since."""
    return changes_until().filter(drifted=True).select_related("revision").order_by("kind", "name")


def managed_elsewhere(row: object) -> str:
    """Why the row's document is not changed here, and what to do; empty where it may be."""
    for kind, name in _keys(row) if isinstance(row, models.Model) else ():
        last = FleetChange.objects.filter(kind=kind, name=name).order_by("-revision_id").first()
        if last is not None and last.text and is_managed(last.label):
            return f"{kind} {name} {conflict_with(last.label)}."
    return ""


def before(change: FleetChange) -> str:
    """What the document was until this change; empty where there was none."""
    rows = FleetChange.objects.filter(kind=change.kind, name=change.name, revision__lt=change.revision_id)
    return rows.order_by("-revision_id").values_list("text", flat=True).first() or ""
