"""Parses the store's address: `clickhouse://user:password@host:port/database?cluster=NAME&fsync=1` (`clickhouses://`: TLS)."""

from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from .embedded.statement import identifier
from .errors import StoreInputError

SCHEMES = ("clickhouse", "clickhouses")
REMEDY = "clickhouse://user:password@host:port/database"


@dataclass(frozen=True, slots=True)
class Dsn:
    """The store's address. `cluster` names the ClickHouse cluster for replicated tables; empty is one server, or the embedded store.

    `fsync` says whether inserts wait for the disk; None leaves tables as they are.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    secure: bool = False
    cluster: str = ""
    fsync: bool | None = None


def parse_dsn(text: str) -> Dsn:
    """Raises StoreInputError, whose message never has the password."""
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or not parts.hostname:
        is_ = f"is {parts.scheme}://{parts.hostname or ''}, which is no store" if parts.scheme else "has no scheme"
        raise StoreInputError(f"WEIR_STORE_DSN {is_ if text else 'is empty'}: set it to {REMEDY}")
    options = parse_qs(parts.query)
    fsync = options.get("fsync", [""])[0]
    if fsync not in ("", "0", "1"):
        raise StoreInputError(f"WEIR_STORE_DSN has fsync={fsync!r}: write fsync=1 or fsync=0")
    secure = parts.scheme == "clickhouses"
    return Dsn(
        host=parts.hostname,
        port=parts.port or (8443 if secure else 8123),
        user=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database=identifier(parts.path.strip("/") or "weir"),
        secure=secure,
        cluster=options.get("cluster", [""])[0],
        fsync=fsync == "1" if fsync else None,
    )
