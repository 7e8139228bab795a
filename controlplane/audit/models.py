"""Who changed what, append-only."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from controlplane.audit.core.chain import PRUNED, START, Link, hash_of, pruned_until
from controlplane.core.acting import Actor

MAX_SUBJECT = 300


class Head(models.Model):
    """The last entry, and (`base`) the one before the first that is kept. Writers hold this row's lock: numbers have no gaps."""

    ONLY = 1
    number = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=START)
    base_number = models.BigIntegerField(default=0)
    base_hash = models.CharField(max_length=64, default=START)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.number} {self.hash}"

    @classmethod
    def lock(cls) -> None:
        """Until the end of the transaction. SQLite's have one writer, from their beginning."""
        if connection.features.has_select_for_update:
            cls.locked()

    @classmethod
    def locked(cls) -> "Head":
        """The row, locked until the end of the transaction."""
        return cls.objects.select_for_update().get_or_create(pk=cls.ONLY)[0]


class Entry(models.Model):
    """One change or refusal. It is complete without what it speaks of, which may be old."""

    FILTERS = {name: name for name in ("who", "via", "action", "kind", "subject_id")}
    """Of a list of entries: fields by their names in a URL."""

    number = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    who = models.CharField(max_length=150, blank=True)
    via = models.CharField(max_length=100)
    address = models.CharField(max_length=45, blank=True)
    action = models.CharField(max_length=20)
    kind = models.CharField(max_length=100, blank=True)
    subject = models.CharField(max_length=MAX_SUBJECT, blank=True)
    subject_id = models.CharField(max_length=100, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    note = models.TextField(blank=True)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        verbose_name_plural = "entries"
        ordering = ["-number"]
        default_permissions = ("view",)
        indexes = [models.Index(fields=["kind", "-number"]), models.Index(fields=["who", "-number"])]

    def __str__(self) -> str:
        return f"{self.number}: {self.who or self.via} {self.action} {self.kind} {self.subject}"

    @property
    def content(self) -> dict[str, Any]:
        """All that it says, as it is hashed."""
        return {
            "at": self.at.isoformat(), "who": self.who, "via": self.via, "address": self.address, "action": self.action,
            "kind": self.kind, "subject": self.subject, "subject_id": self.subject_id, "before": self.before,
            "after": self.after, "note": self.note,
        }  # fmt: skip

    @property
    def exported(self) -> dict[str, Any]:
        """With what its hash is over, as `audit export` and the webhook have it."""
        return {"number": self.number, **self.content, "previous": self.previous, "hash": self.hash}

    @classmethod
    def write(cls, by: Actor, action: str, **said: Any) -> "Entry":
        """Append an entry, in the caller's transaction: both are kept, or neither."""
        with transaction.atomic():
            head = Head.locked()
            entry = cls(
                number=head.number + 1, at=timezone.now(), action=action, previous=head.hash, **by._asdict(), **said
            )
            entry.subject, entry.via = entry.subject[:MAX_SUBJECT], entry.via[:100]
            entry.hash = hash_of(entry.number, entry.content, entry.previous)
            entry.save(force_insert=True)
            head.number, head.hash = entry.number, entry.hash
            head.save(update_fields=["number", "hash"])
        return entry

    @classmethod
    def prune(cls, by: Actor, before: datetime) -> int:
        """Remove the oldest entries, up to the first that is not older, and append one that says so. Returns how many went."""
        with transaction.atomic():
            head = Head.locked()
            kept = cls.objects.filter(at__gte=before).order_by("number").values_list("number", flat=True).first()
            old = cls.objects.filter(number__lt=head.number + 1 if kept is None else kept)
            last = old.first()
            if last is None:
                return 0
            head.base_number, head.base_hash = last.number, last.hash
            head.save(update_fields=["base_number", "base_hash"])
            count = old.delete()[0]
            cls.write(
                by, PRUNED, kind="audit.Entry", after=pruned_until(last.number, last.hash), note=f"{count} entries"
            )
        return count

    @classmethod
    def links(cls) -> Iterator[Link]:
        for entry in cls.objects.order_by("number").iterator(chunk_size=1000):
            yield Link(entry.number, entry.content, entry.previous, entry.hash)
