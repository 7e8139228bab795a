"""Reads the secrets that model servers want. The policy snapshot has their names only."""

import os
from collections.abc import Mapping
from pathlib import Path

from inference.contract.credentials import credential_variable
from inference.contract.errors import PermanentError


class CredentialError(PermanentError):
    """There is no such secret. The message names where it was looked for, and never has its text."""


class Credentials:
    """Secrets are files of `folder`, as Kubernetes mounts them, else environment variables. A file is read at each call, so
    that a secret may be changed while the gateway runs.
    """

    def __init__(self, folder: Path | None, env: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._env = env

    def read(self, name: str) -> str:
        """The secret of this name. Raises CredentialError."""
        variable = credential_variable(name)
        if self._folder is not None and (path := self._folder / name).is_file():
            try:
                text = path.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CredentialError(
                    f"credential {name!r} cannot be read from {path}: {type(error).__name__}"
                ) from None
        else:
            text = self._env.get(variable, "").strip()
        if not text:
            place = f"{self._folder / name} nor in {variable}" if self._folder else f"{variable}, and no folder is set"
            raise CredentialError(
                f"credential {name!r} is neither in {place}: put the secret into WEIR_BACKEND_CREDENTIALS_DIR"
            )
        if not (text.isascii() and text.isprintable()):
            raise CredentialError(
                f"credential {name!r} has characters that no HTTP header can carry: write it anew, in one line"
            )
        return text

    def certificates(self, name: str) -> Path:
        """The PEM file of this name, for `Tls.ca`. Raises CredentialError."""
        if self._folder is None or not (path := self._folder / name).is_file():
            raise CredentialError(
                f"certificates {name!r} are not in WEIR_BACKEND_CREDENTIALS_DIR: put the PEM file there"
            )
        return path
