"""Where the images of requests may be. The gateway fetches none; a model's server does, from inside the network, so what it may
fetch is named by the model's owner, and is on the internet.
"""

import ipaddress
import re
from collections.abc import Iterable

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*\.[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")
# NAT64 (RFC 6052), whose addresses hold those of IPv4.
_NAT64 = ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48")


def is_host(pattern: str) -> bool:
    """Whether it is a host's name, or `*.` and one: no address, and nothing without a dot."""
    return len(pattern) <= 253 and _HOST.fullmatch(pattern) is not None


def allowed(host: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is this host. `*.` stands for any labels before the rest."""
    name = host.lower().rstrip(".")
    return any(name == each or (each.startswith("*.") and name.endswith(each[1:])) for each in patterns)


def is_public(address: str) -> bool:
    """Whether an address is on the internet, also in the forms of IPv6 that hold an address of IPv4."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if any(ip in network for network in _NAT64):
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast
