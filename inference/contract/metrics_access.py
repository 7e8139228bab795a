"""Who may read `/metrics`: one rule for the gateway, the worker and the controller. Web also lets in users and API tokens."""

import hmac
import ipaddress
import re
from collections.abc import Mapping

FORWARDED = (b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"forwarded", b"x-real-ip", b"via")
"""Headers that a proxy adds."""
_HERE = re.compile(rb"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?", re.IGNORECASE)


def may_read_metrics(token: str, peer: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether this caller may read `/metrics`: with a `token`, whoever sends it; without one, this machine alone.

    `peer` is the caller's address; names in `headers` are in lower case. A request that says it was forwarded did not
    begin on this machine, whatever address the proxy has; nor did one for a host of another name. A proxy on this machine that
    says neither cannot be told from a caller here: it needs a token.
    """
    if token:
        return has_metrics_token(token, headers.get(b"authorization", b""))
    if any(name in headers for name in FORWARDED) or not _HERE.fullmatch(headers.get(b"host", b"localhost")):
        return False
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def has_metrics_token(token: str, authorization: bytes) -> bool:
    """Whether the header carries the token; never where none is set."""
    return bool(token) and hmac.compare_digest(authorization, b"Bearer " + token.encode())
