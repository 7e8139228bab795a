"""OTLP over gRPC: the collector services for traces and metrics, on raw bytes.

gRPC's own decompression is off, because it has no bound on the result: bodies are inflated here, as over HTTP. A gzip body is recognised
by its first two bytes, with which no protobuf message begins (0x1f is a tag of wire type 7). The unary method is served as a stream of
one message, so that the sender is checked before its message is read.
"""

from __future__ import annotations  # grpc's classes are generic to the type checker alone

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import structlog

from inference.contract.tls.certificate import ServerCertificate

from . import contract
from .bearer_token import allowed
from .body import GZIP_MAGIC, Body
from .contract import Code, Encoding, RefusedError, Signal
from .receiver import Receiver

log = structlog.get_logger(__name__)

READING = 8
"""Messages read at once. The memory that gRPC holds of a message is not accounted for until the message is complete."""
READ_TIMEOUT_S, PLACE_TIMEOUT_S = 30.0, 2.0

_METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": Signal.TRACES,
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": Signal.METRICS,
}
_CODES: dict[Code, grpc.StatusCode] = {code: getattr(grpc.StatusCode, code.name) for code in Code}

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]


class GrpcReceiver(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, receiver: Receiver, token: str) -> None:
        self._receiver, self._token = receiver, token
        self._places = asyncio.Semaphore(READING)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        signal = _METHODS.get(handler_call_details.method)
        return grpc.stream_unary_rpc_method_handler(self._handler(signal)) if signal else None

    def _handler(self, signal: Signal) -> Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]:
        async def export(messages: AsyncIterator[bytes], context: Context) -> bytes:
            try:
                return await self._export(signal, messages, context)
            except RefusedError as refused:
                self._receiver.counts.request("grpc", refused.code.name.lower())
                failure = refused
            except TimeoutError:
                failure = RefusedError(
                    408, Code.DEADLINE_EXCEEDED, f"the message took longer than {READ_TIMEOUT_S:g} s"
                )
            except Exception:
                log.exception("otlp.failed", signal=signal.value)
                failure = RefusedError(500, Code.INTERNAL, "the receiver failed on this request")
            context.set_trailing_metadata((("grpc-status-details-bin", contract.status_details(failure)),))
            await context.abort(_CODES[failure.code], failure.message)
            raise AssertionError  # abort raises

        return export

    async def _export(self, signal: Signal, messages: AsyncIterator[bytes], context: Context) -> bytes:
        metadata = dict(context.invocation_metadata() or ())
        authorization = metadata.get("authorization", "")
        if not allowed(self._token, authorization if isinstance(authorization, str) else ""):
            raise contract.unauthenticated()
        self._receiver.admit()
        body = Body(gzip=False, limit=self._receiver.max_body_bytes)
        async with self._reading(), asyncio.timeout(READ_TIMEOUT_S):
            async for message in messages:
                body = Body(gzip=message.startswith(GZIP_MAGIC), limit=self._receiver.max_body_bytes)
                body.feed(message)
                break
        whole = body.finish()
        try:
            self._receiver.grow(len(whole))
            taken = await self._receiver.take(signal, Encoding.PROTOBUF, whole)
        finally:
            self._receiver.grow(-len(whole))
        self._receiver.counts.request("grpc", "partial" if taken.rejected else "ok")
        return contract.response(signal, Encoding.PROTOBUF, taken)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Hold one of the places for a message that is being received."""
        try:
            async with asyncio.timeout(PLACE_TIMEOUT_S):
                await self._places.acquire()
        except TimeoutError:
            raise contract.overloaded(f"{READING} requests are being read, slowly") from None
        try:
            yield
        finally:
            self._places.release()


def server(receiver: Receiver, token: str) -> grpc.aio.Server:
    """The server, not yet bound to a port and not started."""
    grpc_server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", receiver.max_body_bytes),
            ("grpc.per_message_decompression", 0),
            ("grpc.so_reuseport", 0),  # a second receiver on the port must fail, not share its requests
            ("grpc.max_concurrent_streams", 1000),
        ]
    )
    grpc_server.add_generic_rpc_handlers((GrpcReceiver(receiver, token),))
    return grpc_server


def bind(server: grpc.aio.Server, address: str, certificate: ServerCertificate | None) -> int:
    """Have the server listen, with TLS where there is a certificate. Returns the port. Raises RuntimeError where it is taken."""
    return server.add_secure_port(address, _tls(certificate)) if certificate else server.add_insecure_port(address)


def _tls(certificate: ServerCertificate) -> grpc.ServerCredentials:
    """At each handshake gRPC gets what the files hold, once `certificate` has checked them."""
    chain, key, client_ca = certificate.files
    used = certificate.context

    def read() -> grpc.ServerCertificateConfiguration:
        authorities = client_ca.read_bytes() if client_ca else None
        return grpc.ssl_server_certificate_configuration([(key.read_bytes(), chain.read_bytes())], authorities)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        if certificate.context is used:
            return None
        used = certificate.context
        return read()

    checks_clients = client_ca is not None
    return grpc.dynamic_ssl_server_credentials(read(), changed, checks_clients)  # type: ignore[arg-type]  # None: none new
