"""Finds the address that a request comes from, behind proxies too."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Network = IPv4Network | IPv6Network


def client_ip(request: HttpRequest) -> str:
    """The address by which failed logins are counted."""
    networks = [ip_network(text, strict=False) for text in settings.CONFIG.trusted_proxies]
    return address_of(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""), networks)


def address_of(peer: str, forwarded_for: str, proxies: Sequence[Network]) -> str:
    """`peer`, unless it is one of `proxies`: then the last address in `forwarded_for` that is not one of them.

    Entries before that address come from the client, which may write anything there.
    """
    address = peer
    for text in reversed([part.strip() for part in forwarded_for.split(",")]):
        if not _is_in(address, proxies) or _parsed(text) is None:
            break
        address = text
    return address


def _is_in(text: str, networks: Sequence[Network]) -> bool:
    address = _parsed(text)
    return address is not None and any(address in network for network in networks)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
