"""Makes Django's DATABASES entry of WEIR_DATABASE_URL."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

POSTGRESQL_SCHEMES = ("postgresql", "postgres")
SCHEMES = ("sqlite", *POSTGRESQL_SCHEMES)
POSTGRESQL_PORT = 5432
TIMEOUT_S = 10
"""How long a write waits for SQLite's lock, or a connection to PostgreSQL."""

NOTICED = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
"""For libpq: a host of PostgreSQL that vanished is noticed within 25 s, also while a query waits for it. By default after two hours."""

_NO_TABLE, _AWAY = "42P01", ("08", "57P")  # SQLSTATEs of PostgreSQL; what fails before a session has none
_SQLITE_FILE = ("SQLITE_CANTOPEN", "SQLITE_READONLY")


class DatabaseUrlError(ValueError):
    """Permanent: the URL names no usable database. The message has the remedy, and never the password."""


def database(url: str, home: Path) -> dict[str, Any]:
    """The `default` database for `url`; an empty one is SQLite in `home`. Raises DatabaseUrlError.

    SQLite: write-ahead log, so that pages are read while the worker writes; IMMEDIATE transactions, so that two writers
    wait for each other, up to TIMEOUT_S, instead of failing half-way with "database is locked".
    """
    parts = urlsplit(url or f"sqlite:///{home / 'weir.sqlite3'}")
    if parts.scheme == "sqlite":
        return _sqlite(unquote(parts.path))
    if parts.scheme in POSTGRESQL_SCHEMES:
        name = unquote(parts.path).strip("/")
        if not name:
            raise DatabaseUrlError("WEIR_DATABASE_URL names no database: end it with /weir")
        try:
            port = parts.port
        except ValueError:  # whose text has what is thought to be the port: a part of the password
            raise DatabaseUrlError(
                "WEIR_DATABASE_URL has a port that is no number from 0 to 65535: write / in a password as %2F, @ as %40"
            ) from None
        if find_spec("psycopg") is None:
            raise DatabaseUrlError(
                "WEIR_DATABASE_URL is of PostgreSQL, which needs its driver: pip install 'psycopg[binary]>=3.2'"
            )
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(port or ""),
            "CONN_MAX_AGE": 0,  # under ASGI a kept connection belongs to a thread that may never be used again
            "OPTIONS": {"connect_timeout": TIMEOUT_S} | NOTICED | dict(parse_qsl(parts.query)),
        }
    raise DatabaseUrlError(
        f"WEIR_DATABASE_URL begins with {parts.scheme!r}, which is not one of {', '.join(SCHEMES)}: "
        "use sqlite:///PATH or postgresql://user@host/name"
    )


def refusal(error: Exception, used: Mapping[str, Any]) -> str:
    """What to do about an error of the database that is `used`, in a line: where it does not answer or was not migrated; else empty."""
    cause = error.__cause__
    said = " ".join(str(error).split())
    if getattr(cause, "sqlstate", "") == _NO_TABLE or said.startswith("no such table"):
        return f"the database lacks a table ({said}): run `manage.py migrate` first"
    if getattr(cause, "sqlite_errorname", "").startswith(_SQLITE_FILE):
        return f"the database file {used['NAME']} cannot be used ({said}): let this user write there, or correct WEIR_DATABASE_URL"
    state = getattr(cause, "sqlstate", "")
    if type(error).__name__ == "OperationalError" and (state is None or state.startswith(_AWAY)):
        where = f"{used['HOST'] or 'this machine'}:{used['PORT'] or POSTGRESQL_PORT}"
        return (
            f"the database {used['NAME']} at {where} cannot be reached ({said}): start it, or correct WEIR_DATABASE_URL"
        )
    return ""


def _sqlite(path: str) -> dict[str, Any]:
    """`path` is the URL's, as SQLAlchemy reads it: sqlite:///relative.db, sqlite:////absolute.db."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path[1:],
        "OPTIONS": {
            "timeout": TIMEOUT_S,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        },
    }
