"""A secret that Weir issues: its text is shown once, and only its digest and its first characters are stored."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.utils import timezone

from controlplane.config.secrets import new_secret
from inference.contract.snapshot import key_digest

SHOWN_RANDOM_CHARACTERS = 6
ROTATES_WITHIN = timedelta(hours=24)
"""How long a secret that was rotated works beside the new one."""


class Issued(models.Model):
    """What such models share. Each begins with its `BEGINS_WITH`."""

    BEGINS_WITH: ClassVar[str]
    name: Any
    prefix: Any
    sha256: Any
    created_at: Any
    expires_at: Any

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def shown(cls, text: str) -> str:
        """Its first characters, to tell secrets apart."""
        return text[: len(cls.BEGINS_WITH) + SHOWN_RANDOM_CHARACTERS]

    def renew(self) -> str:
        """Give the record a new secret, unsaved, and return its text."""
        text = new_secret(self.BEGINS_WITH)
        self.prefix, self.sha256 = self.shown(text), key_digest(text)
        return text

    def rotate(self) -> tuple[Self, str]:
        """A new one with the same settings and length of life, and its text. This one ends within ROTATES_WITHIN."""
        now = timezone.now()
        fields = [field for field in self._meta.concrete_fields if field.editable and not field.primary_key]
        kept = {field.attname: getattr(self, field.attname) for field in fields}
        kept["expires_at"] = None if self.expires_at is None else now + (self.expires_at - self.created_at)
        made = type(self)(**kept)
        text = made.renew()
        self.expires_at = min(self.expires_at or now + ROTATES_WITHIN, now + ROTATES_WITHIN)
        with transaction.atomic():
            made.save()
            for field in self._meta.many_to_many:
                getattr(made, field.name).set(getattr(self, field.name).all())
            self.save(update_fields=["expires_at"])
        return made, text

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now
