"""Which connections of a process are in the clear: plain text that leaves the machine."""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import structlog

from inference.contract.address import is_loopback

_log = structlog.get_logger()

ENCRYPTED = frozenset({"https", "rediss", "clickhouses", "grpcs", "smtps"})
ON_THIS_MACHINE = frozenset({"unix", "sqlite"})
ENCRYPTING_MODES = frozenset({"require", "verify-ca", "verify-full"})
"""libpq's `sslmode`; its default, `prefer`, takes plain text where the server offers no other."""


class Connection(NamedTuple):
    """`to` names what is at the other end, and `where` its hosts, without a user or a password."""

    to: str
    where: str
    encrypted: bool
    local: bool

    @property
    def in_the_clear(self) -> bool:
        return not (self.encrypted or self.local)


def connection(to: str, url: str) -> Connection:
    """Of a URL that Weir's settings take, with one host or several."""
    parts = urlsplit(url)
    scheme, hosts = parts.scheme.partition("+")[0], parts.netloc.rpartition("@")[2]
    encrypted = scheme in ENCRYPTED
    if scheme in ("postgresql", "postgres"):
        encrypted = parse_qs(parts.query).get("sslmode", [""])[-1] in ENCRYPTING_MODES
        hosts = hosts or "localhost"  # libpq's default: the socket of this machine
    if scheme in ON_THIS_MACHINE:
        return Connection(to, parts.path, encrypted, local=True)
    return reached(to, hosts, encrypted=encrypted)


def reached(to: str, hosts: str, *, encrypted: bool) -> Connection:
    """Of what listens at a host, or at several with commas between them, with ports or without."""
    return Connection(to, hosts, encrypted, all(is_loopback(_without_port(host)) for host in hosts.split(",")))


def connections(urls: Iterable[tuple[str, str]]) -> list[Connection]:
    """Of names and URLs; an empty URL is no connection."""
    return [connection(to, url) for to, url in urls if url]


def warn(connections: Iterable[Connection]) -> None:
    """Log each that is in the clear, when a process starts."""
    for each in connections:
        if each.in_the_clear:
            _log.warning(
                "connection.in_the_clear", to=each.to, where=each.where, remedy="docs/tls.md says how to encrypt it"
            )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host
