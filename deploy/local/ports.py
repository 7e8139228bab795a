"""TCP ports of this machine."""

import random
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
MIN_PORT, MAX_PORTS = 1_024, 12_000

_part = (0, 1)
_given: deque[int] = deque(maxlen=1_000)
_random = random.SystemRandom()  # processes that begin alike, as those of tests do, must not choose alike


def confine(number: int, parts: int) -> None:
    """Choose from now on among the `number`th of so many parts of the ports. Processes with a part each never choose the same one before
    either uses it.
    """
    global _part
    _part = (number, parts)


def free_ports(count: int) -> list[int]:
    """`count` different free ports, other than those that this process was given last.

    They are below those that the kernel gives to outgoing connections: so none of these takes a port between this call and its use.
    """
    number, parts = _part
    first = max(_first_outgoing(), MIN_PORT + MAX_PORTS) - MAX_PORTS
    size = MAX_PORTS // parts
    ports: list[int] = []
    while len(ports) < count:
        port = first + number * size + _random.randrange(size)
        if port not in _given and is_free(port):
            _given.append(port)
            ports.append(port)
    return ports


def _first_outgoing() -> int:
    """The first port of outgoing connections; Linux's default where it cannot be read."""
    try:
        return int(OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def free_port() -> int:
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    """Whether a server could listen there now. Connections in TIME_WAIT do not count as taken."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


@contextmanager
def reserved(port: int) -> Iterator[None]:
    """Keep a free port from everybody but servers that share theirs (SO_REUSEPORT), as granian does. Raises OSError where it is taken."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield
