"""Looks up the names of servers."""

import asyncio
import errno
import socket
from collections.abc import Sequence

from inference.contract.address import is_link_local
from inference.wires.connect import Address

_KEPT_S = 10.0
"""How long a name's addresses are used before it is looked up again."""


class Resolver:
    """Leaves out link-local addresses, unless `link_local`: a snapshot's names are checked when it is read, but whoever answers
    for a name may have it point at a cloud's metadata later.
    """

    def __init__(self, *, link_local: bool) -> None:
        self._link_local = link_local
        self._known: dict[tuple[str, int], tuple[float, Sequence[Address]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """Raises OSError, also where no other address is left."""
        loop = asyncio.get_running_loop()
        until_s, addresses = self._known.get((host, port), (0.0, ()))
        if loop.time() < until_s:
            return addresses
        given = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        known: list[Address] = [(family, address) for family, *_, address in given]  # type: ignore[misc]
        addresses = [(family, address) for family, address in known if self._link_local or not _refused(address[0])]
        if given and not addresses:
            raise OSError(
                errno.EACCES,
                f"{host!r} is at {given[0][4][0]}, a link-local address, where clouds have their metadata; "
                "WEIR_BACKEND_LINK_LOCAL=true allows these",
            )
        self._known[host, port] = loop.time() + _KEPT_S, addresses
        return addresses


def _refused(host: str) -> bool:
    return is_link_local(host.partition("%")[0])
