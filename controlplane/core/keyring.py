"""Reads the encryption keys from WEIR_ENCRYPTION_KEYS, or else from `encryption-keys` in WEIR_HOME.

They are read at each use, so that a rotation needs no restart.
"""

from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from controlplane.config import Config
from controlplane.config.secrets import read_or_make_secret, read_secret
from controlplane.core.encryption import Keys, SealError, keys


def path(config: Config) -> Path:
    return config.home / "encryption-keys"


def configured(config: Config) -> Keys | None:
    """The configured keys, or None. Raises SealError for a key that is malformed or cannot be read."""
    if config.encryption_keys:
        return keys(config.encryption_keys)
    try:
        text = read_secret(path(config))
    except OSError as error:
        raise SealError(
            f"{path(config)} cannot be read ({error.strerror}): let the user that runs Weir read it"
        ) from None
    return keys(text.split()) if text else None


def to_open() -> Keys:
    """The keys that decrypt. Raises SealError where there are none."""
    present = configured(settings.CONFIG)
    if present is None:
        raise SealError(
            f"{path(settings.CONFIG)} is missing, and with it the key of the stored secrets: restore it from its backup "
            "(or set WEIR_ENCRYPTION_KEYS), or enter the secrets again in the admin after making a new key there"
        )
    return present


def to_seal(has_sealed: Callable[[], bool]) -> Keys:
    """The keys that encrypt. Makes one if there is none and nothing was encrypted yet: a lost key is never replaced. Raises SealError."""
    if configured(settings.CONFIG) is None and not has_sealed():
        try:
            read_or_make_secret(path(settings.CONFIG))
        except OSError as error:
            raise SealError(
                f"{path(settings.CONFIG)} cannot be written ({error.strerror}): make room there, or let Weir write it"
            ) from None
    return to_open()
