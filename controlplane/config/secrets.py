"""Keeps secrets in WEIR_HOME: one file each, readable by its owner alone."""

import os
import secrets
from pathlib import Path

SECRET_BYTES = 32
"""256 random bits. With so many, storing a plain SHA-256 digest is safe."""


def new_secret(prefix: str = "") -> str:
    """A new URL-safe secret. The prefix (`weir_…_`) names its kind and lets scanners find leaks."""
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def read_secret(path: Path) -> str | None:
    """The secret in the file; None without a file."""
    try:
        return path.read_text().strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_secret(path: Path, secret: str) -> None:
    """Replace the file in one step. Its mode is 0600 before anything is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secret + "\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_or_make_secret(path: Path) -> str:
    """The secret in the file, made on first use. Processes that start at the same moment get the same secret."""
    if secret := read_secret(path):
        return secret
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f".{path.name}.{os.getpid()}")
    write_secret(mine, new_secret())
    try:
        os.link(mine, path)  # unlike a rename, fails where another process was first
    except FileExistsError:
        pass
    finally:
        mine.unlink()
    secret = read_secret(path)
    if secret is None:
        raise OSError(f"{path} is empty: remove it, and a new secret is made")
    return secret
