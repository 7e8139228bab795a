"""OTLP over HTTP: POST /v1/traces and /v1/metrics."""

import asyncio

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from . import contract
from .bearer_token import allowed
from .body import Body
from .contract import Code, Encoding, RefusedError, Signal
from .receiver import Receiver

log = structlog.get_logger(__name__)

READ_TIMEOUT_S = 30.0
"""How long a body may take to arrive, because a slow sender holds memory."""


class HttpReceiver:
    """The handlers and their error responses. Its routes and middleware need an aiohttp application with `auto_decompress=False`."""

    def __init__(self, receiver: Receiver, token: str) -> None:
        self._receiver, self._token = receiver, token

    def routes(self) -> list[web.RouteDef]:
        return [web.post(f"/v1/{signal}", self._handler(signal)) for signal in Signal]

    def _handler(self, signal: Signal) -> Handler:
        async def export(request: web.Request) -> web.Response:
            self.authenticate(request)
            encoding = contract.encoding_of(request.headers.get("Content-Type", ""))
            body = await self.body(request, gzip=contract.is_gzip(request.headers.get("Content-Encoding", "")))
            try:
                taken = await self._receiver.take(signal, encoding, body)
            finally:
                self._receiver.grow(-len(body))
            self._receiver.counts.request("http", "partial" if taken.rejected else "ok")
            return web.Response(body=contract.response(signal, encoding, taken), content_type=encoding.value)

        return export

    def authenticate(self, request: web.Request) -> None:
        if not allowed(self._token, request.headers.get("Authorization")):
            raise contract.unauthenticated()

    async def body(self, request: web.Request, *, gzip: bool) -> bytes:
        """The decompressed body. The receiver accounts for its memory until the caller calls `grow` with its negative length."""
        limit = self._receiver.max_body_bytes
        body = Body(gzip=gzip, limit=limit)
        contract.check_length(request.content_length, limit)
        self._receiver.admit()
        accounted = 0
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                async for chunk in request.content.iter_any():
                    grown = body.feed(chunk)
                    accounted += grown
                    self._receiver.grow(grown)
            whole = body.finish()
            self._receiver.grow(len(whole) - accounted)
            accounted = len(whole)
        except TimeoutError:
            self._receiver.grow(-accounted)
            raise RefusedError(408, Code.DEADLINE_EXCEEDED, f"the body took longer than {READ_TIMEOUT_S:g} s") from None
        except BaseException:
            self._receiver.grow(-accounted)
            raise
        return whole

    @property
    def middleware(self) -> Middleware:
        """Turns every error into a google.rpc.Status in the request's own encoding."""

        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await handler(request)
            except RefusedError as refused:
                return self._refusal(request, refused)
            except web.HTTPException as error:
                code = (
                    Code.NOT_FOUND
                    if error.status == 404
                    else Code.UNIMPLEMENTED
                    if error.status == 405
                    else Code.INVALID_ARGUMENT
                )
                response = self._refusal(
                    request, RefusedError(error.status, code, f"{request.method} {request.path[:80]}: {error.reason}")
                )
                if allow := error.headers.get("Allow"):
                    response.headers["Allow"] = allow
                return response
            except (ConnectionError, web.RequestPayloadError):
                return web.Response(status=499)  # the sender has closed the connection: nobody reads this
            except Exception:
                log.exception("otlp.failed", path=request.path)
                return self._refusal(request, RefusedError(500, Code.INTERNAL, "the receiver failed on this request"))

        return answer

    def _refusal(self, request: web.Request, refused: RefusedError) -> web.Response:
        if request.method == "POST":
            self._receiver.counts.request("http", str(refused.http))
        encoding = Encoding.PROTOBUF if request.content_type == Encoding.PROTOBUF.value else Encoding.JSON
        response = web.Response(
            status=refused.http, body=contract.status(refused, encoding), content_type=encoding.value
        )
        if refused.retry_after_s is not None:
            response.headers["Retry-After"] = str(max(1, round(refused.retry_after_s)))
        if refused.http == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response
