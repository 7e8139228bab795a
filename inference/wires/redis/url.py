"""Reads WEIR_REDIS_URL."""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from inference.contract.errors import PermanentError

Kind = Literal["server", "sentinel", "cluster"]

SCHEMES = (
    "redis:// (rediss:// with TLS) or unix:// for a server, redis+sentinel://SENTINEL:26379,…/MASTER, "
    "redis+cluster://NODE:6379,… (rediss+… with TLS)"
)
_DEFAULT_PORTS: dict[Kind, int] = {"server": 6379, "sentinel": 26379, "cluster": 6379}


class RedisUrlError(PermanentError, ValueError):
    """The URL cannot be understood. The message has the remedy, and no password."""


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """`hosts` are servers, sentinels or nodes of a cluster. `path` is the socket of a `unix://` URL, else empty."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...]
    path: str = ""
    tls: bool = False
    user: str = "default"
    password: str = ""
    database: int = 0
    master: str = ""  # the name that the sentinels watch
    sentinel_user: str = ""
    sentinel_password: str = ""

    @property
    def where(self) -> str:
        """For logs: without passwords."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return self.path or (f"{self.master} at {hosts}" if self.master else hosts)


def parse(url: str) -> RedisUrl:
    """Raises RedisUrlError."""
    parts = urlsplit(url)
    base, _, suffix = parts.scheme.partition("+")
    kinds: dict[str, Kind] = {"": "server", "sentinel": "sentinel", "cluster": "cluster"}
    kind = kinds.get(suffix)
    if kind is None or base not in ("redis", "rediss", "unix") or (base == "unix" and suffix):
        raise RedisUrlError(f"the scheme {parts.scheme!r} is not known: use {SCHEMES}")
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    master, database = "", query.get("db", "")
    if base != "unix":
        path = [unquote(part) for part in parts.path.split("/") if part]
        if kind == "sentinel":
            if not path:
                raise RedisUrlError("the master's name is missing: write redis+sentinel://HOST:26379/MASTER")
            master = path.pop(0)
        database = database or "".join(path)
    if not (database or "0").isdigit():
        raise RedisUrlError(f"the database {database!r} is not a number: end the URL with /0, or with nothing")
    if kind == "cluster" and int(database or 0):
        raise RedisUrlError(f"the database is {database}, and a cluster has database 0 alone: leave it out")
    return RedisUrl(
        kind,
        () if base == "unix" else tuple(_address(host, _DEFAULT_PORTS[kind]) for host in hosts.split(",")),
        unquote(parts.path) if base == "unix" else "",
        base == "rediss",
        unquote(user) or "default",
        unquote(password),
        int(database or 0),
        master,
        query.get("sentinel_user", ""),
        query.get("sentinel_password", ""),
    )


def _address(text: str, default: int) -> tuple[str, int]:
    """`host`, `host:port` or `[v6]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, ""
    if port and not (port.isdigit() and 0 < int(port) < 65536):
        raise RedisUrlError(f"the port {port!r} of {host!r} is not one between 1 and 65535: write HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port or default)
