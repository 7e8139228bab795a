"""gRPC's interop TestService on grpcio's server, with the features of grpc/doc/interop-test-descriptions.md that Weir's client
needs. The messages are those of grpc/src/proto/grpc/testing/messages.proto.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INT32, STRING, BYTES = "TYPE_INT32", "TYPE_STRING", "TYPE_BYTES"
_MESSAGES: dict[str, tuple[tuple[int, str, str, bool], ...]] = {  # number, name, type, repeated
    "Payload": ((1, "type", INT32, False), (2, "body", BYTES, False)),
    "EchoStatus": ((1, "code", INT32, False), (2, "message", STRING, False)),
    "Empty": (),
    "SimpleRequest": (
        (1, "response_type", INT32, False),
        (2, "response_size", INT32, False),
        (3, "payload", "Payload", False),
        (7, "response_status", "EchoStatus", False),
    ),
    "SimpleResponse": ((1, "payload", "Payload", False),),
    "StreamingInputCallRequest": ((1, "payload", "Payload", False),),
    "StreamingInputCallResponse": ((1, "aggregated_payload_size", INT32, False),),
    "ResponseParameters": ((1, "size", INT32, False), (2, "interval_us", INT32, False)),
    "StreamingOutputCallRequest": (
        (1, "response_type", INT32, False),
        (2, "response_parameters", "ResponseParameters", True),
        (3, "payload", "Payload", False),
        (7, "response_status", "EchoStatus", False),
    ),
    "StreamingOutputCallResponse": ((1, "payload", "Payload", False),),
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="weir_interop.proto", package="grpc.testing", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind, repeated in fields:
            label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
            added = message.field.add(name=field, number=number, label=label)
            if kind.startswith("TYPE_"):
                added.type = descriptor_pb2.FieldDescriptorProto.Type.Value(kind)
            else:
                added.type, added.type_name = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE, f".grpc.testing.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"grpc.testing.{name}")) for name in _MESSAGES
    }


MESSAGES = _classes()
ECHO_INITIAL, ECHO_TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


class TestService(grpc.GenericRpcHandler):
    """`metadata` is what the last call brought."""

    __test__ = False

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}

    def service(self, details: Any) -> Any:
        service, _, name = details.method.rpartition("/")
        method = getattr(self, f"_{name}", None)
        if service != "/grpc.testing.TestService" or method is None:
            return None
        return grpc.stream_stream_rpc_method_handler(method)

    async def _begin(self, context: Any) -> None:
        self.metadata = dict(context.invocation_metadata())
        if ECHO_INITIAL in self.metadata:
            await context.send_initial_metadata(((ECHO_INITIAL, self.metadata[ECHO_INITIAL]),))
        if ECHO_TRAILING in self.metadata:
            context.set_trailing_metadata(((ECHO_TRAILING, self.metadata[ECHO_TRAILING]),))

    async def _EmptyCall(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        await self._begin(context)
        async for request in requests:
            assert request == b""
            yield b""

    async def _UnaryCall(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        await self._begin(context)
        async for raw in requests:
            request = MESSAGES["SimpleRequest"].FromString(raw)
            await _echo_status(request, context)
            yield MESSAGES["SimpleResponse"](payload={"body": bytes(request.response_size)}).SerializeToString()

    async def _StreamingInputCall(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        await self._begin(context)
        size = 0
        async for raw in requests:
            size += len(MESSAGES["StreamingInputCallRequest"].FromString(raw).payload.body)
        yield MESSAGES["StreamingInputCallResponse"](aggregated_payload_size=size).SerializeToString()

    async def _FullDuplexCall(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        await self._begin(context)
        async for raw in requests:
            request = MESSAGES["StreamingOutputCallRequest"].FromString(raw)
            await _echo_status(request, context)
            for parameters in request.response_parameters:
                body = {"body": bytes(parameters.size)}
                yield MESSAGES["StreamingOutputCallResponse"](payload=body).SerializeToString()

    _StreamingOutputCall = _FullDuplexCall


async def _echo_status(request: Any, context: Any) -> None:
    if request.response_status.code:
        codes = {code.value[0]: code for code in grpc.StatusCode}
        await context.abort(codes[request.response_status.code], request.response_status.message)
