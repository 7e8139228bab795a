"""Hands requests for files, batches and background responses on to the lane. Bodies of uploads and contents of files go through while
they come.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec

from inference.config import Config
from inference.contract.address import parse_url
from inference.contract.lane import (
    COME_AGAIN,
    END_HEADER,
    FEED,
    JOBS,
    KEY_HEADER,
    RESPONSES,
    TENANT_HEADER,
    authorization,
    is_below_lane,
)
from inference.contract.lenient import reading
from inference.core.openai import errors
from inference.request.authenticate import digest_of
from inference.snapshot.serving import Caller
from inference.wires.http.client import HttpClient, NotConnectedError, request_of
from inference.wires.http.exchange import Exchange, Headers, Request
from inference.wires.http.incoming import Incoming
from inference.wires.http.response import LostError, NotHttpError, Response, TooLongError
from inference.wires.resolver import Resolver

_CONNECT_S = 2.0
_ANSWER_S = 60.0
_RETRY_AFTER_S = 2.0
_MAX_ANSWER_BYTES = 17 << 20  # an answer of 16 MiB and what is said of it; a list of 10,000 files is smaller
_PASSED = (b"content-type", b"idempotency-key", b"accept", b"last-event-id")
_GIVEN = (
    b"content-type",
    b"content-disposition",
    b"cache-control",
    b"retry-after",
    b"x-should-retry",
    b"x-request-id",
    END_HEADER.encode(),
)


class _Wanted(msgspec.Struct):
    background: Any = None
    model: Any = None
    body: Any = None  # of a job


_wanted = reading(_Wanted)


def is_for_lane(request: Request) -> bool:
    """Also a new response, where its body says `background: true`. A body that cannot be read is left to whoever answers it."""
    if request.path != RESPONSES:
        return is_below_lane(request.path)
    if request.method != "POST" or b'"background"' not in request.body:
        return False
    return _read(request).background is True


def model_of(request: Request) -> str:
    """That a request for the lane is to run with, if it is a new job or background response which says so: it is looked for at once."""
    if request.method != "POST" or request.path not in (RESPONSES, JOBS):
        return ""
    wanted = _read(request)
    body = wanted.body if isinstance(wanted.body, dict) else {}
    model = wanted.model if request.path == RESPONSES else body.get("model")
    return model if isinstance(model, str) else ""


def _read(request: Request) -> _Wanted:
    """What cannot be read is left to whoever answers it. Model servers in Python read more than JSON: with NaN too it is for the lane."""
    try:
        return _wanted(request.body)
    except ValueError:
        return _Wanted()


class Lane:
    """Where `config` says that it is. `caller` of a request is who the gateway has authenticated."""

    def __init__(self, config: Config) -> None:
        self._url = parse_url(config.lane_url, link_local=config.backend_link_local)
        self._token = config.lane_token
        self._part_s, self._unread_s = config.read_timeout_ms / 1000, config.write_timeout_ms / 1000
        self._client = HttpClient(Resolver(link_local=config.backend_link_local), _CONNECT_S)
        self._origin = self._client.origin(self._url)
        self._left = False
        self._feeds: set[asyncio.Timeout] = set()  # of reads that may take long

    def leave(self) -> None:
        """End streams that would go on for as long as this gateway does."""
        self._left = True
        for limit in self._feeds:
            limit.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        self._client.close()

    async def serve(self, request: Request, out: Exchange, caller: Caller) -> None:
        """Raises ApiError."""
        try:
            async with asyncio.timeout(_ANSWER_S) as limit:
                response = await self._call(request, caller, limit)
        except NotConnectedError:
            raise _away() from None
        except (LostError, NotHttpError, TimeoutError):
            may_repeat = request.method != "POST" or b"idempotency-key" in request.headers
            raise _away() if may_repeat else _lost(request) from None
        try:
            await self._answer(response, out, is_feed=request.path.endswith(FEED))
        except (LostError, NotHttpError, TooLongError, TimeoutError):
            if not out.started:
                raise _away() from None
            out.abort()
        finally:
            response.release()

    async def _call(self, request: Request, caller: Caller, limit: asyncio.Timeout) -> Response:
        headers = {
            **authorization(self._token),
            TENANT_HEADER: quote(caller.tenant),
            KEY_HEADER: digest_of(request.headers, caller),
            **{name.decode(): request.headers[name].decode("latin-1") for name in _PASSED if name in request.headers},
        }
        url = self._url._replace(path=self._url.path + quote(request.path, safe="/:@"), query=request.query)
        if request.incoming is None:
            body = request.body if request.method == "POST" else None
            return await self._client.call(self._origin, request_of(request.method, url, headers, body))
        head = request_of(request.method, url, headers | {"transfer-encoding": "chunked"})
        return await self._client.stream(self._origin, head, self._parts(request.incoming, limit))

    async def _parts(self, incoming: Incoming, limit: asyncio.Timeout) -> AsyncIterator[bytes]:
        """The body, while client and lane go on with it."""
        while True:
            limit.reschedule(asyncio.get_running_loop().time() + self._part_s + _ANSWER_S)
            try:
                data = await incoming.read(self._part_s)
            except TimeoutError:
                raise errors.slow_body(self._part_s) from None
            if not data:
                return
            yield data

    async def _answer(self, response: Response, out: Exchange, *, is_feed: bool) -> None:
        headers: Headers = [(name, response.headers[name]) for name in _GIVEN if name in response.headers]
        if response.status != 200 or response.headers.get(b"content-type", b"").startswith(b"application/json"):
            async with asyncio.timeout(_ANSWER_S):
                body = await response.read_all(_MAX_ANSWER_BYTES)
            out.respond(response.status, headers, body)
            return
        out.start_stream(headers)
        is_whole = True  # no event is begun
        while not (is_feed and self._left and is_whole):
            try:
                data = await self._read(response, is_feed=is_feed)
            except TimeoutError:
                if is_feed and self._left and is_whole:
                    continue
                raise
            if not data:
                out.end_stream()
                return
            out.write(data)
            await out.drained(self._unread_s)
            is_whole = data.endswith(b"\n\n")
        out.end_stream(COME_AGAIN)

    async def _read(self, response: Response, *, is_feed: bool) -> bytes:
        async with asyncio.timeout(_ANSWER_S) as limit:
            if is_feed:
                self._feeds.add(limit)
            try:
                return await response.read()
            finally:
                self._feeds.discard(limit)


def not_kept(method: str, path: str) -> errors.ApiError:
    """Where there is no lane: any server of a model may have answered, and which of them did is not known."""
    message = f"{method} {path} finds nothing, because no response is kept here, whatever `store` says: send the conversation in `input`."
    return errors.PermanentApiError(404, "invalid_request_error", "response_not_kept", message)


def _away() -> errors.ApiError:
    message = (
        "Files, batches and what waits cannot be reached just now. Other requests are not affected: try again shortly."
    )
    return errors.unavailable(message, _RETRY_AFTER_S, "gateway", reason="lane_unavailable")


def _lost(request: Request) -> errors.ApiError:
    """Nobody knows whether it was done, so the client must not send it again by itself."""
    return errors.PermanentApiError(
        502,
        "server_error",
        "answer_lost",
        f"The answer to {request.method} {request.path} was lost, and it may have been done: look with GET before it is sent again.",
    )
