"""TCP ports of this machine."""

import random
import socket
from collections import deque
from pathlib import Path

LOOPBACK = "127.0.0.1"
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
MIN_PORT, MAX_PORTS = 1_024, 12_000

_given: deque[int] = deque(maxlen=1_000)
_random = random.SystemRandom()  # processes that begin alike, as those of tests do, must not choose alike


def free_ports(count: int) -> list[int]:
    """`count` different free ports, other than those that this process was given last.

    They are below those that the kernel gives to outgoing connections: so none of these takes a port between this call and its use.
    """
    end = max(_first_outgoing(), MIN_PORT + MAX_PORTS)
    ports: list[int] = []
    while len(ports) < count:
        port = _random.randrange(max(end - MAX_PORTS, MIN_PORT), end)
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
