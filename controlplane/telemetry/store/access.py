"""The embedded store's password, and the DSN that carries it."""

import os
import secrets
from pathlib import Path

PASSWORD_FILE = "store-password"  # noqa: S105  (a file's name)


def password(home: Path) -> str:
    """The password in `home`/store-password, made (mode 0600) where it is absent; safe when several processes ask at once."""
    path = home / PASSWORD_FILE
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f".{PASSWORD_FILE}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
        try:
            os.link(draft, path)  # whole or not at all, and never over another process's
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()


def dsn(home: Path, port: int, database: str = "weir") -> str:
    """Where the embedded store answers, for clients on this machine."""
    return f"clickhouse://weir:{password(home)}@127.0.0.1:{port}/{database}"
