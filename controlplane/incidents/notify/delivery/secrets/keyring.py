"""Where the encryption keys come from: WEIR_ENCRYPTION_KEYS, or else `encryption-keys` in WEIR_HOME.

Read anew at each use, so that a rotation needs no restart.
"""

from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from controlplane.config import Config
from controlplane.config.secrets import read_or_make_secret, read_secret
from controlplane.incidents.notify.delivery.core.encryption import Keys, SealError, keys


def path(config: Config) -> Path:
    return config.home / "encryption-keys"


def configured(config: Config) -> Keys | None:
    """The keys that there are; None for none at all. Raises SealError for what is no key, or cannot be read."""
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
    """Raises SealError where there is none: what is sealed was sealed with something."""
    found = configured(settings.CONFIG)
    if found is None:
        raise SealError(
            f"{path(settings.CONFIG)} is missing, and with it the key of the stored secrets: restore it from its backup "
            "(or set WEIR_ENCRYPTION_KEYS), or enter the secrets again in the admin after making a new key there"
        )
    return found


def to_seal(has_sealed: Callable[[], bool]) -> Keys:
    """A key is made where there is none and nothing was sealed yet; a lost one is not replaced in silence. Raises SealError."""
    if configured(settings.CONFIG) is None and not has_sealed():
        read_or_make_secret(path(settings.CONFIG))
    return to_open()
