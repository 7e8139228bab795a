"""Decides which addresses outbound requests may go to, so that a destination is no way into the private network."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


class BlockedError(Exception):
    """Permanent: no request goes to this URL or address. The message says why and what would allow it, without the URL."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What WEIR_OUTBOUND_ALLOW allows: networks, and names with any address. Plain HTTP is allowed to them too."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    names: frozenset[str] = frozenset()

    def has_name(self, host: str) -> bool:
        return host.lower().rstrip(".") in self.names

    def has_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def allowed(entries: Iterable[str]) -> Allowed:
    """`10.0.0.0/8`, `127.0.0.1` or `hooks.internal`. Raises ValueError for anything else."""
    networks: list[IPv4Network | IPv6Network] = []
    names: set[str] = set()
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry.strip("[]")))
        except ValueError:
            name = entry.lower().rstrip(".")
            if "/" in name or ":" in name or not all(part.replace("-", "a").isalnum() for part in name.split(".")):
                raise ValueError(f"{entry!r} is neither a network, an address nor a host name") from None
            names.add(name)
    return Allowed(tuple(networks), frozenset(names))


def check_url(scheme: str, host: str, has_user: bool, allow: Allowed) -> None:
    """Check a URL's parts, before its name is resolved. Raises BlockedError."""
    if not host:
        raise BlockedError("the address names no host: use https://host/path")
    if has_user:
        raise BlockedError("the address carries a user or password: put secrets into the path or the signature")
    literal = literal_address(host)
    opened = allow.has_name(host) or (literal is not None and allow.has_address(literal))
    if scheme != "https" and not (scheme == "http" and (opened or _may_be_plain(host, allow))):
        raise BlockedError(
            f"{scheme or 'no'} scheme: use https, or list the host in WEIR_OUTBOUND_ALLOW for plain http"
        )
    if literal is not None and not opened:
        check_addresses([literal], host, allow)


def _may_be_plain(host: str, allow: Allowed) -> bool:
    """Plain HTTP may go to a name whose addresses are all in an allowed network. `check_addresses` checks those."""
    return literal_address(host) is None and bool(allow.networks)


def check_addresses(addresses: Sequence[Address], host: str, allow: Allowed, plain: bool = False) -> None:
    """Check all addresses that a name resolved to: one bad address refuses the name. Raises BlockedError."""
    if allow.has_name(host):
        return
    for address in addresses:
        if allow.has_address(address):
            continue
        if plain:
            raise BlockedError("plain http goes only to what WEIR_OUTBOUND_ALLOW lists: use https")
        if not is_public(address):
            raise BlockedError(f"{address} is not a public address: list it in WEIR_OUTBOUND_ALLOW if it is meant")


def literal_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether it is reachable over the internet, and so is the IPv4 address that an IPv6 address may carry."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        carried = _carried(address)
        if carried is not None:
            return is_public(carried)
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or address.is_loopback
        or address.is_link_local
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
