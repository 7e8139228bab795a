"""Reads addresses, for the policy snapshot, the gateway's channels and the admin alike."""

import re

_HOST = re.compile(r"\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_MOST_PORT = 65_535


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets. Raises ValueError with the value and
    the remedy.
    """
    host, _, port = text.rpartition(":")
    labels = host.rstrip(".").split(".")
    if not _HOST.fullmatch(host) or not (host.startswith("[") or all(0 < len(label) < 64 for label in labels)):
        raise ValueError(f"{text!r} is not an address: write host:port, such as 10.0.0.7:8001 or [::1]:8001")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _MOST_PORT):
        raise ValueError(f"{text!r} has no port from 1 to 65535: write host:port, such as 10.0.0.7:8001")
    return host.strip("[]"), int(port)
