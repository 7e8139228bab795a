"""Reads addresses and URLs, for the policy snapshot, the gateway's channels and the admin alike."""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

_HOST = re.compile(r"\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_MAX_PORT = 65_535


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets. Raises ValueError with the value and
    the remedy.
    """
    host, _, port = text.rpartition(":")
    labels = host.rstrip(".").split(".")
    if not _HOST.fullmatch(host) or not (host.startswith("[") or all(0 < len(label) < 64 for label in labels)):
        raise ValueError(f"{text!r} is not an address: write host:port, such as 10.0.0.7:8001 or [::1]:8001")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _MAX_PORT):
        raise ValueError(f"{text!r} has no port from 1 to 65535: write host:port, such as 10.0.0.7:8001")
    return host.strip("[]"), int(port)


class Url(NamedTuple):
    scheme: str  # "http" or "https"
    host: str
    port: int
    path: str  # without a slash at its end
    query: str = ""


def parse_url(text: str, link_local: bool = False, *, with_query: bool = False) -> Url:
    """The parts of an http or https URL without user or fragment, and without a query unless `with_query`. Clouds give secrets to
    whoever asks at link-local addresses, so these are refused unless `link_local`. Raises ValueError with the value and the remedy.
    """
    try:
        parts = urlsplit(text)
        host, port, has_user = (
            parts.hostname or "",
            parts.port,
            parts.username is not None or parts.password is not None,
        )
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL ({error}): write one such as http://10.0.0.7:8000/v1") from None
    if has_user:
        raise ValueError(f"the URL of host {host!r} carries a user or password: leave it out, and name a credential")
    if parts.scheme not in ("http", "https"):
        raise ValueError(
            f"{text!r} does not begin with http:// or https://: write a URL such as http://10.0.0.7:8000/v1"
        )
    if (parts.query and not with_query) or parts.fragment or any(it <= " " or it == "\x7f" for it in text):
        what = "" if with_query else "a query, "
        raise ValueError(f"{text!r} has {what}a fragment or white space: leave it out")
    port = (443 if parts.scheme == "https" else 80) if port is None else port
    host, port = parse_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    last_label = host.rstrip(".").rpartition(".")[2].lower()
    if (last_label.isdigit() or last_label.startswith("0x")) and not is_ip(host):
        raise ValueError(
            f"{host!r} is a short form of an address: write its four numbers, such as http://10.0.0.7:8000/v1"
        )
    if not link_local and is_link_local(host):
        raise ValueError(
            f"{host!r} is a link-local address, where clouds have their metadata: write the server's own address, or allow "
            "these with WEIR_BACKEND_LINK_LOCAL=true"
        )
    return Url(parts.scheme, host, port, parts.path.rstrip("/"), parts.query)


_SECRETS = re.compile(r"(?i)(key|token|secret|sig|signature|password|auth|code)=")
_METADATA = frozenset(("metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"))
_METADATA_ADDRESSES = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))


def is_ip(host: str) -> bool:
    """Whether it is an IPv4 or IPv6 address, without brackets, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host name or address is surely this machine. Other names may be any."""
    name = host.strip("[]")
    return (
        name == "localhost" or name.endswith(".localhost") or (is_ip(name) and ipaddress.ip_address(name).is_loopback)
    )


def is_link_local(host: str) -> bool:
    """Whether a cloud's metadata is there: a link-local address, or one of those that AWS, Alibaba and Azure have beside these, or
    a name of theirs. Other names are not resolved.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().rstrip(".") in _METADATA
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local or address in _METADATA_ADDRESSES


def parse_base_url(text: str, link_local: bool = False) -> Url:
    """The parts of the base URL of OpenAI's API; what its query has goes along with each call. Raises ValueError with the value
    and the remedy.
    """
    url = parse_url(text, link_local, with_query=True)
    if _SECRETS.search(url.query):
        raise ValueError(
            f"the query of host {url.host!r} has what looks like a secret: leave it out, and name a credential"
        )
    if not url.path:
        raise ValueError(f"{text!r} has no path: write the base of the API, such as {text.rstrip('/')}/v1")
    return url


def parse_proxy(text: str) -> tuple[str, int]:
    """Host and port of an HTTP proxy's URL. Raises ValueError with the value and the remedy."""
    url = parse_url(text, link_local=True)
    if url.scheme != "http" or url.path:
        raise ValueError(f"{text!r} is not a proxy: write its address, such as http://proxy:3128")
    return url.host, url.port
