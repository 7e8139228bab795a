"""Keeps the embedded store's password, and makes the DSN with it."""

import os
import secrets
from pathlib import Path

PASSWORD_FILE = "store-password"  # noqa: S105  (a file's name)


def password(home: Path) -> str:
    """The password in `home`/store-password, made (mode 0600) where it is absent. Safe for several processes at once."""
    path = home / PASSWORD_FILE
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f".{PASSWORD_FILE}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
        try:
            os.link(draft, path)  # atomic, and never replaces the password of another process
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()


def dsn(home: Path, port: int) -> str:
    """The DSN of the embedded store, for clients on this machine."""
    return f"clickhouse://weir:{password(home)}@127.0.0.1:{port}/weir"
