"""Rows with a secret, of any room."""

from typing import Any

from django.apps import apps
from django.db import models

from controlplane.core import keyring
from controlplane.core.encryption import Keys


class Sealed(models.Model):
    """A row with a secret, which is encrypted in the database. `secret` decrypts it; it is never shown or logged."""

    sealed = models.TextField(editable=False)

    class Meta:
        abstract = True

    @classmethod
    def in_use(cls) -> models.QuerySet[Any]:
        """Rows whose secrets are needed."""
        return cls._default_manager.all()

    @property
    def secret(self) -> str:
        """Raises SealError where the keys do not open it."""
        return keyring.to_open().open(self.sealed)

    @secret.setter
    def secret(self, text: str) -> None:
        """Raises SealError where the keys are lost or wrong."""
        self.seal(keyring.to_seal(anything_sealed), text)

    def seal(self, keys: Keys, text: str) -> None:
        self.sealed = keys.seal(text)


def anything_sealed() -> bool:
    second_factors = apps.get_model("mfa.Authenticator")  # sealed by `controlplane.accounts.login.adapters`
    return any(kind._default_manager.exists() for kind in (*Sealed.__subclasses__(), second_factors))
