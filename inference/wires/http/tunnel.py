"""Asks an HTTP proxy for a connection to a server (CONNECT: RFC 9110, 9.3.6)."""

import asyncio
import socket

_MAX_HEAD_BYTES = 16 << 10


async def tunnel(made: socket.socket, host: str, port: int) -> None:
    """Have the proxy at the other end of `made` connect it on. Nothing comes after its answer before the server is spoken to.
    Raises OSError where it does not.
    """
    loop = asyncio.get_running_loop()
    authority = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
    await loop.sock_sendall(made, b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority, authority))
    head = b""
    while b"\r\n\r\n" not in head:
        part = await loop.sock_recv(made, _MAX_HEAD_BYTES)
        head += part
        if not part or len(head) > _MAX_HEAD_BYTES:
            raise OSError("the proxy did not answer")
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    if line[:7] != "HTTP/1." or line[9:10] != "2":
        raise OSError(f"the proxy answered {line[:60]!r}")
