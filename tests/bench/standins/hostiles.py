"""Clients without a key that want to do harm to a gateway on this machine, for a time.

    python -m tests.bench.standins.hostiles PORT SECONDS

Thirty send six requests every 30 ms each and read no answer; fifty send one byte a second; twenty a second connect, send a
part of a request and reset the connection; two send headers without end. Who is cut off comes back a second later.
"""

import asyncio
import contextlib
import os
import random
import socket
import struct
import sys
from collections.abc import Awaitable, Callable

HOST = "127.0.0.1"
PIPELINERS, DRIPPERS, RESETS_PER_S, HEADERS = 30, 50, 20, 2
PAUSE_S = 1.0

_READY = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n" * 6
_SLOW = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000
_MILLION = 1_000_000
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by a reset


async def _connect(port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (HOST, port))
    except BaseException:
        connection.close()
        raise
    return connection


async def _send(connection: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, data)


async def pipeline(port: int) -> None:
    """Send ahead, and leave the answers where they are."""
    with await _connect(port) as connection:
        while True:
            await _send(connection, _READY)
            await asyncio.sleep(0.03)


async def drip(port: int) -> None:
    with await _connect(port) as connection:
        for byte in _SLOW:
            await _send(connection, bytes([byte]))
            await asyncio.sleep(1.0)


async def reset(port: int) -> None:
    """Leave in the middle, rudely."""
    while True:
        with await _connect(port) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            await _send(connection, _SLOW[: random.randrange(len(_SLOW))])
        await asyncio.sleep(1.0 / RESETS_PER_S)


async def headers(port: int) -> None:
    with await _connect(port) as connection:
        await _send(connection, b"GET / HTTP/1.1\r\n")
        for number in range(0, _MILLION, 1000):
            await _send(connection, b"".join(b"x-%d: a\r\n" % (number + one) for one in range(1000)))
            await asyncio.sleep(0)


async def _again(attack: Callable[[int], Awaitable[None]], port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            await attack(port)
        await asyncio.sleep(PAUSE_S)


async def main(port: int, seconds: float) -> None:
    attacks = [*[pipeline] * PIPELINERS, *[drip] * DRIPPERS, reset, *[headers] * HEADERS]
    tasks = [asyncio.ensure_future(_again(attack, port)) for attack in attacks]
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


if __name__ == "__main__":
    os.nice(5)  # what is measured is what the gateway does about them, and not what it costs to be them
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
