"""The gateway's HTTP/1.1 client, on httptools: one connection for each call under way, kept for the next.

It costs a third of aiohttp's client per call (docs/benchmarks.md). It follows no redirects, keeps no cookies and takes no compressed
answers.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple

from inference.contract.address import Url
from inference.contract.errors import RetryableError
from inference.wires.connect import ANYHOW, Address, Connecting, close, connect
from inference.wires.http.response import LostError, NotHttpError, Origin, Response, TooLongError

KEPT_S = 4.0
"""How long an idle connection is kept: below the 5 s after which uvicorn, which most servers run on, closes it."""
_MAX_PROXY_HEAD_BYTES = 16 << 10

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""The addresses of a host, in the order in which they are tried. Raises OSError."""


class NotConnectedError(RetryableError):
    """Retryable: no connection could be made. The message says why."""


UNANSWERED = (NotConnectedError, LostError, NotHttpError, TooLongError)
"""What a call raises that has no answer, or not all of it."""


class Answer(NamedTuple):
    """A whole answer; names of headers are in lower case."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class HttpClient:
    """Connections to any number of origins. `resolve` looks names up. A connection is made within `connect_timeout_s`."""

    def __init__(self, resolve: Resolve, connect_timeout_s: float) -> None:
        self._resolve = resolve
        self._connect_timeout_s = connect_timeout_s
        self._idle: dict[Origin, list[Response]] = {}
        self._used: set[Response] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._context: ssl.SSLContext | None = None

    def system_context(self) -> ssl.SSLContext:
        """That trusts the authorities that the system trusts; made at the first https."""
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def origin(self, url: Url) -> Origin:
        """Of a URL whose server is trusted as the system trusts."""
        return Origin(url.host, url.port, self.system_context() if url.scheme == "https" else None)

    async def fetch(self, url: Url, request: bytes, most: int) -> Answer:
        """The answer to a whole request. Raises UNANSWERED, also for a body of more than `most` bytes."""
        response = await self.call(self.origin(url), request)
        try:
            return Answer(response.status, response.headers, await response.read_all(most))
        finally:
            response.release()

    async def call(self, origin: Origin, request: bytes, connecting: Connecting = ANYHOW) -> Response:
        """Send a whole request, and wait for the answer's head. The caller calls `release` once it is done with it. A request that
        was sent on a kept connection which the server had closed already is sent again on a new one.

        Raises NotConnectedError, LostError, NotHttpError.
        """
        kept = self._kept(origin)
        if kept is None:
            return await self._exchange(await self._connect(origin, connecting), request)
        try:
            return await self._exchange(kept, request)
        except LostError as error:
            if not error.stale:
                raise
        self.close_idle(origin)  # they are older
        try:
            response = await self._connect(origin, connecting)
        except NotConnectedError as error:  # so the server has ended, and perhaps by this request
            raise LostError(f"the connection was lost, and then: {error}") from None
        return await self._exchange(response, request)

    async def stream(self, origin: Origin, head: bytes, body: AsyncIterator[bytes]) -> Response:
        """As `call`, with a body that is sent while it comes: `head` says that it is chunked. It is sent on a new connection, because it
        cannot be sent again. Raises as `call` does, and whatever `body` raises.
        """
        response = await self._connect(origin, ANYHOW)
        self._used.add(response)
        response.begun = asyncio.Event()
        try:
            response.send(head)
            async with aclosing(_until(response.begun, body)) as parts:
                async for data in parts:
                    await response.write(b"%x\r\n%s\r\n" % (len(data), data))
            if response.begun.is_set():
                response.at_end(response.abort)  # the rest of the request is not sent: no other may follow it
            else:
                await response.write(b"0\r\n\r\n")
            await response.head()
        except BaseException:
            response.abort()
            self.give_back(response)
            raise
        return response

    async def _exchange(self, response: Response, request: bytes) -> Response:
        self._used.add(response)
        try:
            response.send(request)
            await response.head()
        except BaseException:
            self.give_back(response)
            raise
        return response

    def give_back(self, response: Response) -> None:
        if response not in self._used:
            return
        self._used.remove(response)
        if not response.reusable:
            response.abort()
            return
        loop = asyncio.get_running_loop()
        response.idle_since_s = loop.time()
        self._idle.setdefault(response.origin, []).append(response)
        if self._sweep is None:
            self._sweep = loop.call_later(KEPT_S, self._close_old)

    def forget(self, response: Response) -> None:
        """Its connection has ended."""
        kept = self._idle.get(response.origin)
        if kept is not None and response in kept:
            kept.remove(response)

    @property
    def kept(self) -> int:
        """Idle connections."""
        return sum(map(len, self._idle.values()))

    def close(self) -> None:
        """Close what is idle. Calls under way go on."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self.close_idle()

    def close_idle(self, origin: Origin | None = None) -> None:
        """Close the connections that no call uses; those to all origins if none is given."""
        for ended in [origin] if origin is not None else list(self._idle):
            for response in self._idle.pop(ended, ()):
                response.abort()

    def _kept(self, origin: Origin) -> Response | None:
        """The connection that was used last, which is the least likely to be closed."""
        kept = self._idle.get(origin)
        oldest_s = asyncio.get_running_loop().time() - KEPT_S
        while kept:
            response = kept.pop()
            if response.open and response.idle_since_s > oldest_s:
                return response
            response.abort()
        return None

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        oldest_s = loop.time() - KEPT_S
        for origin, kept in list(self._idle.items()):
            self._idle[origin] = [response for response in kept if response.idle_since_s > oldest_s]
            for response in kept:
                if response.idle_since_s <= oldest_s:
                    response.abort()
            if not self._idle[origin]:
                del self._idle[origin]
        self._sweep = loop.call_later(KEPT_S, self._close_old) if self._idle else None

    async def _connect(self, origin: Origin, connecting: Connecting) -> Response:
        try:
            async with asyncio.timeout(connecting.within_s or self._connect_timeout_s):
                response = await self._connected(origin)
        except TimeoutError:
            raise NotConnectedError("cannot connect: timed out") from None
        except (ssl.SSLError, ssl.CertificateError) as error:
            raise NotConnectedError(f"TLS failed: {error}") from None
        except (OSError, ValueError) as error:  # ValueError: no host can have this name
            raise NotConnectedError(f"cannot connect: {error}") from None
        connecting.done()
        return response

    async def _connected(self, origin: Origin) -> Response:
        """To the first address that answers; one that fails after that is left to the others. Raises OSError of the last one."""
        loop = asyncio.get_running_loop()
        addresses = list(await self._resolve(*(origin.proxy or origin[:2])))
        while True:
            made = await connect(addresses)
            peer = made.getpeername()
            try:
                if origin.proxy:
                    await _tunnel(made, origin.host, origin.port)
                _, response = await loop.create_connection(
                    lambda: Response(self, origin),
                    sock=made,
                    ssl=origin.context,
                    server_hostname=(origin.server_name or origin.host) if origin.context else None,
                )
            except BaseException as error:
                close(made)
                addresses = [address for address in addresses if address[1][0] != peer[0]]
                if not addresses or not isinstance(error, OSError):
                    raise
            else:
                return response


async def _until(event: asyncio.Event, body: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The parts of the body that come before the event."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        while not event.is_set():
            part = asyncio.ensure_future(anext(body, None))
            try:
                await asyncio.wait((part, waiting), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not part.done():
                    part.cancel()
            if not part.done() or (data := part.result()) is None:
                return
            yield data
    finally:
        waiting.cancel()


async def _tunnel(made: socket.socket, host: str, port: int) -> None:
    """Have the proxy at the other end of `made` connect it on (CONNECT: RFC 9110, 9.3.6). Nothing comes after its answer before the
    server is spoken to. Raises OSError where it does not.
    """
    loop = asyncio.get_running_loop()
    authority = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()
    await loop.sock_sendall(made, b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority, authority))
    head = b""
    while b"\r\n\r\n" not in head:
        part = await loop.sock_recv(made, _MAX_PROXY_HEAD_BYTES)
        head += part
        if not part or len(head) > _MAX_PROXY_HEAD_BYTES:
            raise OSError("the proxy did not answer")
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    if line[:7] != "HTTP/1." or line[9:10] != "2":
        raise OSError(f"the proxy answered {line[:60]!r}")


def request_of(method: str, url: Url, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """The bytes of a request. Raises ValueError where a header has a line end, as a secret from a file may."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    if url.port != (443 if url.scheme == "https" else 80):
        host = f"{host}:{url.port}"
    target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir\r\n"]
    for name, value in headers.items():
        if "\n" in value or "\r" in value:
            raise ValueError(f"the value of {name} has a line end: correct it")
        lines.append(f"{name}: {value}\r\n")
    lines.append("\r\n" if body is None else f"Content-Length: {len(body)}\r\n\r\n")
    return "".join(lines).encode() + (body or b"")
