"""POST /api/v1/write on the OTLP port. It answers 204 once the samples would survive a kill."""

import asyncio

import pyarrow as pa
import structlog
from aiohttp import web

from controlplane.telemetry.ingest.otlp import contract
from controlplane.telemetry.ingest.otlp.contract import Code, RefusedError
from controlplane.telemetry.ingest.otlp.decode.malformed import MalformedError
from controlplane.telemetry.ingest.otlp.decode.wire import varint
from controlplane.telemetry.ingest.otlp.http import HttpReceiver
from controlplane.telemetry.ingest.otlp.receiver import Receiver
from controlplane.telemetry.ingest.spool.writer import SpoolFullError
from controlplane.telemetry.metrics.batch import Builder

from .decode import read

log = structlog.get_logger(__name__)

PATH = "/api/v1/write"
_PROTO = "prometheus.WriteRequest"
_codec = pa.Codec("snappy")


def check_message(content_type: str, encoding: str) -> None:
    """Raises RefusedError (415) for any other message or encoding."""
    media, *parameters = (part.strip() for part in content_type.split(";"))
    proto = next((part[6:].strip(' "') for part in parameters if part.lower().startswith("proto=")), _PROTO)
    if media.lower() != "application/x-protobuf" or proto != _PROTO:
        raise RefusedError(
            415,
            Code.INVALID_ARGUMENT,
            f"content type {content_type[:120]!r} is not served: send remote write 1.0, application/x-protobuf with proto={_PROTO}",
        )
    if encoding.strip().lower() != "snappy":
        raise RefusedError(415, Code.INVALID_ARGUMENT, f"content encoding {encoding[:40]!r} is not served: send snappy")


class RemoteWrite:
    """The handler of remote write. Errors are answered as text, which senders log. The receiver limits memory and writes to the spool."""

    def __init__(self, http: HttpReceiver, receiver: Receiver) -> None:
        self._http, self._receiver = http, receiver

    def routes(self) -> list[web.RouteDef]:
        return [web.post(PATH, self._write)]

    async def _write(self, request: web.Request) -> web.Response:
        try:
            self._http.authenticate(request)
            headers = request.headers
            check_message(headers.get("Content-Type", ""), headers.get("Content-Encoding", ""))
            block = await self._http.body(request, gzip=False)
            try:
                answer = await self._take(block)
            finally:
                self._receiver.grow(-len(block))
        except RefusedError as refused:
            answer = _refusal(refused)
        except (ConnectionError, web.RequestPayloadError, asyncio.CancelledError):
            raise  # the sender has closed the connection
        except Exception:
            log.exception("remote_write.failed")
            answer = _refusal(RefusedError(500, Code.INTERNAL, "the receiver failed on this request"))
        self._receiver.counts.request("remote_write", "ok" if answer.status == 204 else str(answer.status))
        return answer

    async def _take(self, block: bytes) -> web.Response:
        body = _decompressed(block, self._receiver.max_body_bytes)
        try:
            self._receiver.grow(len(body))
            builder = self._receiver.metrics.builder()
            await self._receiver.judged(len(body), read, body, builder)
            await self._receiver.metrics.keep(builder)
        except MalformedError as error:
            raise contract.bad_data(str(error)) from error
        except SpoolFullError as full:
            raise contract.unavailable(str(full), full.retry_after_s) from full
        finally:
            self._receiver.grow(-len(body))
        return _answer(builder)


def _decompressed(block: bytes, limit: int) -> bytes:
    """The data of a block of Snappy's block format, which begins with its size. Raises RefusedError."""
    try:
        size, _ = varint(block, 0)
    except (IndexError, MalformedError):
        raise contract.bad_data("the body is not a snappy block: it has no length") from None
    if size > limit:
        raise contract.too_large(limit)
    try:
        return bytes(_codec.decompress(block, size, asbytes=True)) if size else b""
    except (OSError, pa.ArrowException) as error:
        raise contract.bad_data("the body is not a snappy block (the block format, not the framed one)") from error


def _answer(builder: Builder) -> web.Response:
    """204, or 400 where samples were refused. The others are written all the same, and a retry would not help."""
    if builder.rejected:
        return web.Response(status=400, text=contract.summary(builder.rejected, "samples").message)
    return web.Response(status=204)


def _refusal(refused: RefusedError) -> web.Response:
    headers = {"Retry-After": str(max(1, round(refused.retry_after_s)))} if refused.retry_after_s is not None else {}
    if refused.http == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(status=refused.http, text=refused.message, headers=headers)
