"""Secrets that lie in WEIR_HOME: one file each, readable by their owner alone."""

import os
import secrets
from pathlib import Path

SECRET_BYTES = 32
"""256 random bits: enough that a plain SHA-256 digest of it can be stored."""


def new_secret(prefix: str = "") -> str:
    """A secret as people copy it: URL-safe; the prefix (`weir_…_`) says what it is and lets scanners find leaks."""
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def read_secret(path: Path) -> str | None:
    """The secret in the file, or None where there is none."""
    try:
        return path.read_text().strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_secret(path: Path, secret: str) -> None:
    """Replace the file whole, mode 0600 from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")
    temporary.replace(path)


def read_or_make_secret(path: Path) -> str:
    """The secret in the file, made on first use; processes that start at once all end up with the same one."""
    if found := read_secret(path):
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f".{path.name}.{os.getpid()}")
    write_secret(mine, new_secret())
    try:
        os.link(mine, path)  # unlike a rename, fails where another process was first
    except FileExistsError:
        pass
    finally:
        mine.unlink()
    found = read_secret(path)
    if found is None:
        raise OSError(f"{path} is empty: remove it, and a new secret is made")
    return found
