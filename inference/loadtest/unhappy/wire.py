"""A connection on which anything can be sent, at any pace, and left at any point."""

import asyncio
import re
import socket
from dataclasses import dataclass

from inference.loadtest.client import Client
from inference.wires.http.client import request_of

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NO_BUFFER = 1024


@dataclass(frozen=True, slots=True)
class Got:
    """What came. `status` is 0 where no answer began. `whole`: it came to its end; `closed`: the server closed the connection."""

    status: int = 0
    body: bytes = b""
    whole: bool = False
    closed: bool = False

    def __str__(self) -> str:
        if not self.status:
            return "closed without an answer" if self.closed else "silence"
        return f"status {self.status}" + ("" if self.whole else ", cut off" if self.closed else ", without an end")


class Wire:
    """`client` knows the server, its model and its key. `patience_s` is how long anything is waited for."""

    def __init__(self, client: Client, patience_s: float) -> None:
        self.client, self.patience_s = client, patience_s
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._rest = b""

    async def open(self, *, slow: bool = False) -> "Wire":
        """`slow` takes few bytes into this machine's buffers, so that the server notices that nobody reads. Raises OSError."""
        host, port, context = self.client.origin[:3]
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.patience_s):
            family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            if slow:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _NO_BUFFER)
            try:
                await loop.sock_connect(made, address)
                name = host if context else None
                self._reader, self._writer = await asyncio.open_connection(
                    sock=made, ssl=context, server_hostname=name, limit=_NO_BUFFER
                )
            except BaseException:
                made.close()
                raise
        return self

    def request(self, body: bytes, key: str | None = None) -> bytes:
        """A request with this body, and with another key if one is given."""
        target = self.client.target
        headers = {"Content-Type": "application/json", **target.headers}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return request_of("POST", target.url._replace(path=target.url.path + target.route), headers, body)

    async def send(self, data: bytes) -> None:
        """Nothing is raised where the server reads no more: what it answers is looked at afterwards."""
        try:
            async with asyncio.timeout(self.patience_s):
                self._writer.write(data)
                await self._writer.drain()
        except (OSError, TimeoutError):
            pass

    async def first_bytes(self) -> bytes:
        """Something of the answer; empty where nothing comes."""
        try:
            async with asyncio.timeout(self.patience_s):
                data = await self._reader.read(_NO_BUFFER)
        except (OSError, TimeoutError):
            return b""
        self._rest += data
        return data

    def half_close(self) -> None:
        self._writer.write_eof()

    def leave(self) -> None:
        """Rudely: by a reset where something was not read."""
        self._writer.transport.abort()

    async def got(self) -> Got:
        """The answer, to its end, or until nothing comes for as long as patience lasts."""
        data = self._rest
        while True:
            if (got := _read(data)).whole:
                self._rest = data[_end(data) :]
                return got
            try:
                async with asyncio.timeout(self.patience_s):
                    more = await self._reader.read(1 << 20)
            except TimeoutError:
                return got
            except OSError:
                more = b""
            if not more:
                return Got(got.status, got.body, whole=False, closed=True)
            data += more


def _end(data: bytes) -> int:
    """Where the answer ends; -1 where it has not."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return -1
    length = _LENGTH.search(data, 0, head + 2)
    if length:
        end = head + 4 + int(length[1])
        return end if len(data) >= end else -1
    last = data.find(b"\r\n0\r\n\r\n", head)
    return last + 7 if last >= 0 else -1


def _read(data: bytes) -> Got:
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit() else 0
    end = _end(data)
    return Got(status, body, whole=status > 0 and end >= 0)
