"""An address where nobody answers: packets to it are dropped, as behind a firewall or at a host that is gone."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast


@contextmanager
def black_hole() -> Iterator[tuple[str, int]]:
    """Host and port. The kernel drops attempts to connect to a socket whose queue of connections is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = cast("tuple[str, int]", listening.getsockname())
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        try:
            yield address
        finally:
            for each in waiting:
                each.close()
