"""The HTTP connections to one server."""

import ssl
from typing import NamedTuple

from inference.contract.address import Url, parse_base_url
from inference.core.backend_errors import BackendError, FailedError, LostCallError, UnreachableError
from inference.wires.connect import ANYHOW, Connecting
from inference.wires.http.client import HttpClient, NotConnectedError, request_of
from inference.wires.http.response import LostError, NotHttpError, Origin, Response, TooLongError
from inference.wires.resolver import Resolver

_MAX_BODY_BYTES = 64 << 20

Headers = dict[str, str]


class Trust(NamedTuple):
    """How the certificates of a pool's servers are checked, None is as the system does, and the proxy before those with TLS."""

    context: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: tuple[str, int] | None = None


class HttpLink:
    """Connections are opened as calls need them, and kept for the next. Redirects are not followed: credentials would go to
    another server. Names may point at link-local addresses if `link_local`.
    """

    full = False  # each call has a connection of its own

    def __init__(self, target: str, connect_timeout_s: float, *, link_local: bool = False) -> None:
        self.target = target
        self.url = parse_base_url(target, link_local=True)  # which was checked with the snapshot
        self.arrivals = 0
        self._in_flight = 0
        self._closing = False
        self._client = HttpClient(Resolver(link_local=link_local), connect_timeout_s)

    def ping(self) -> None:
        """HTTP has none."""

    def renew(self) -> None:
        """What is idle may have been forgotten by a firewall or a balancer on the way: the next call makes a new connection."""
        self._client.close_idle()

    def disconnect(self) -> None:
        """Does nothing: a slow probe says nothing of the connections of other calls, which have time limits of their own."""

    def close(self) -> None:
        """No more calls; those in flight go on."""
        self._closing = True
        self._close_if_idle()

    async def post(
        self, url: Url, body: bytes, headers: Headers, trust: Trust, connecting: Connecting = ANYHOW
    ) -> Response:
        """Send a request, and wait for the answer's head. The caller passes the answer to `release` once it is done with it.

        Raises UnreachableError, FailedError.
        """
        return await self._call("POST", url, headers, body, trust, connecting)

    async def get(self, url: Url, headers: Headers, trust: Trust, most: int = _MAX_BODY_BYTES) -> tuple[int, bytes]:
        """Status and body of an answer, of at most `most` bytes. Raises as `post` does."""
        response = await self._call("GET", url, headers, None, trust)
        try:
            return response.status, await read_all(response, most)
        finally:
            self.release(response)

    def release(self, response: Response) -> None:
        """The answer is not needed any more: a connection whose answer was not read to its end is closed."""
        response.release()
        self._in_flight -= 1
        self._close_if_idle()

    async def _call(
        self,
        method: str,
        url: Url,
        headers: Headers,
        body: bytes | None,
        trust: Trust,
        connecting: Connecting = ANYHOW,
    ) -> Response:
        try:
            request = request_of(method, url, headers, body)
        except ValueError as error:
            raise FailedError(str(error), "misconfigured") from None
        context = (trust.context or self._client.system_context()) if url.scheme == "https" else None
        self._in_flight += 1
        response: Response | None = None
        try:
            origin = Origin(url.host, url.port, context, trust.server_name, trust.proxy if context else None)
            response = await self._client.call(origin, request, connecting)
        except (NotConnectedError, LostError, NotHttpError) as error:
            raise error_of(error) from None
        finally:
            if response is None:
                self._in_flight -= 1
                self._close_if_idle()
        self.arrivals += 1
        return response

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return not self._in_flight

    def _close_if_idle(self) -> None:
        if self._closing and not self._in_flight:
            self._client.close()


async def read_all(response: Response, most: int = _MAX_BODY_BYTES) -> bytes:
    """The answer's body. Raises FailedError if it is longer than `most` bytes, UnreachableError if it breaks off."""
    try:
        return await response.read_all(most)
    except (LostError, NotHttpError, TooLongError) as error:
        raise error_of(error) from None


def error_of(error: Exception) -> BackendError:
    """What a failed exchange means."""
    if isinstance(error, NotHttpError):
        return FailedError(str(error), "bad_response")
    if isinstance(error, TooLongError):
        return FailedError(str(error), "answer_too_long")
    return LostCallError(str(error)) if isinstance(error, LostError) else UnreachableError(str(error))
