"""Makes TCP connections: to whichever address of a host answers first, and with signs of life while they are idle."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from aiohappyeyeballs import start_connection

Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]

PATIENCE_S = 30
"""Silence after which the kernel asks the other host for a sign of life, and gives up after three more like it."""
NEXT_AFTER_S = 0.25
"""How long an address is waited for before the next one is tried beside it: RFC 8305, 5."""


def _nothing() -> None: ...


class Connecting(NamedTuple):
    """What a call wants where it has to wait for a connection: within which time (0 is as its link has it), and to know that it is
    there.
    """

    within_s: float = 0.0
    done: Callable[[], None] = _nothing


ANYHOW = Connecting()


async def connect(addresses: Sequence[Address]) -> socket.socket:
    """A socket to the first address that answers ("happy eyeballs", RFC 8305). Raises OSError."""
    if not addresses:
        raise OSError("the name has no address")
    given: list[Any] = [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address) for family, address in addresses]
    try:
        made: socket.socket = await start_connection(
            given, happy_eyeballs_delay=NEXT_AFTER_S, interleave=1, socket_factory=partial(_socket)
        )
    except RuntimeError as error:  # of uvloop
        raise OSError(str(error)) from None
    return made


def watch_over(made: Any) -> None:
    """Have the kernel notice a host that has vanished, and send without waiting for more. `made` may be a transport's socket."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PATIENCE_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PATIENCE_S // 3)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def close(made: socket.socket) -> None:
    with suppress(OSError):
        made.close()


def _socket(address: Any) -> socket.socket:
    made = socket.socket(address[0], socket.SOCK_STREAM)
    made.setblocking(False)
    watch_over(made)
    return made
