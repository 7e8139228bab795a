"""gRPC's published interop cases for clients (grpc/doc/interop-test-descriptions.md), against grpcio's server.

Not here: cases of compression, which the client does not offer (`grpc-accept-encoding`), of HTTP caching, and of Google's
cloud credentials.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import pytest

from inference.wires.grpc import Call, Channel, GrpcError, Status
from inference.wires.grpc.channel import metadata
from tests.support.grpc.interop import ECHO_INITIAL, ECHO_TRAILING, MESSAGES, TestService

SERVICE = b"/grpc.testing.TestService/"
LARGE = MESSAGES["SimpleRequest"](response_size=314_159, payload={"body": bytes(271_828)}).SerializeToString()
SIZES_ASKED, SIZES_SENT = (31_415, 9, 2_653, 58_979), (27_182, 8, 1_828, 45_904)


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[tuple[TestService, str]]:
    handler, server = TestService(), grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield handler, f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def channel(service: tuple[TestService, str]) -> AsyncIterator[Channel]:
    made = Channel(service[1], connect_timeout_s=120)
    yield made
    assert made.calls == 0
    made.close()


async def rest_of(call: Call) -> list[bytes]:
    messages = []
    async with asyncio.timeout(120):
        while (message := await call.read()) is not None:
            messages.append(message)
    return messages


async def status_of(call: Call) -> tuple[int, str]:
    with pytest.raises(GrpcError) as caught:
        await rest_of(call)
    return int(caught.value.status), caught.value.message


def output_request(sizes: Iterable[int], sent: int = 0, **options: Any) -> bytes:
    parameters = [{"size": size} for size in sizes]
    request = MESSAGES["StreamingOutputCallRequest"](
        response_parameters=parameters, payload={"body": bytes(sent)}, **options
    )
    return bytes(request.SerializeToString())


def body_size(raw: bytes, kind: str = "StreamingOutputCallResponse") -> int:
    body = MESSAGES[kind].FromString(raw).payload.body
    assert body == bytes(len(body))
    return len(body)


async def test_empty_unary(channel: Channel) -> None:
    assert await channel.unary(SERVICE + b"EmptyCall", b"", 20) == b""


async def test_large_unary(channel: Channel) -> None:
    assert body_size(await channel.unary(SERVICE + b"UnaryCall", LARGE, 20), "SimpleResponse") == 314_159


async def test_client_streaming(channel: Channel) -> None:
    call = await channel.call(SERVICE + b"StreamingInputCall", None)
    for size in SIZES_SENT:
        call.send(MESSAGES["StreamingInputCallRequest"](payload={"body": bytes(size)}).SerializeToString())
    call.finish()
    [answer] = await rest_of(call)
    assert MESSAGES["StreamingInputCallResponse"].FromString(answer).aggregated_payload_size == 74_922


async def test_server_streaming(channel: Channel) -> None:
    call = await channel.call(SERVICE + b"StreamingOutputCall", output_request(SIZES_ASKED))
    assert tuple(map(body_size, await rest_of(call))) == SIZES_ASKED


async def test_ping_pong(channel: Channel) -> None:
    call = await channel.call(SERVICE + b"FullDuplexCall", None)
    for wanted, sent in zip(SIZES_ASKED, SIZES_SENT, strict=True):
        call.send(output_request([wanted], sent))
        answer = await call.read()
        assert answer is not None
        assert body_size(answer) == wanted
    call.finish()
    assert await rest_of(call) == []


async def test_empty_stream(channel: Channel) -> None:
    call = await channel.call(SERVICE + b"FullDuplexCall", None)
    call.finish()
    assert await rest_of(call) == []


@pytest.mark.parametrize(("method", "body"), [(b"UnaryCall", LARGE), (b"FullDuplexCall", output_request([314_159]))])
async def test_custom_metadata(channel: Channel, method: bytes, body: bytes) -> None:
    binary = base64.b64encode(b"\xab\xab\xab").rstrip(b"=")
    given = metadata((ECHO_INITIAL.encode(), b"test_initial_metadata_value"), (ECHO_TRAILING.encode(), binary))
    call = await channel.call(SERVICE + method, body, given)
    assert len(await rest_of(call)) == 1
    assert call.headers[ECHO_INITIAL.encode()] == b"test_initial_metadata_value"
    assert base64.b64decode(call.trailers[ECHO_TRAILING.encode()] + b"==") == b"\xab\xab\xab"


@pytest.mark.parametrize(
    "message", ["test status message", "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"]
)
async def test_status_code_and_special_status_message(channel: Channel, message: str) -> None:
    status = {"code": 2, "message": message}
    unary = MESSAGES["SimpleRequest"](response_status=status).SerializeToString()
    assert await status_of(await channel.call(SERVICE + b"UnaryCall", unary)) == (2, message)
    duplex = await channel.call(SERVICE + b"FullDuplexCall", output_request([], response_status=status))
    assert await status_of(duplex) == (2, message)


@pytest.mark.parametrize(
    "path", [SERVICE + b"UnimplementedCall", b"/grpc.testing.UnimplementedService/UnimplementedCall"]
)
async def test_unimplemented_method_and_service(channel: Channel, path: bytes) -> None:
    assert (await status_of(await channel.call(path, b"")))[0] == Status.UNIMPLEMENTED


async def test_cancel_after_begin(channel: Channel) -> None:
    call = await channel.call(SERVICE + b"StreamingInputCall", None)
    call.cancel()
    assert (await status_of(call))[0] == Status.CANCELLED


async def test_cancel_after_first_response(channel: Channel) -> None:
    call = await channel.call(SERVICE + b"FullDuplexCall", None)
    call.send(output_request([31_415], 27_182))
    answer = await call.read()
    assert answer is not None
    assert body_size(answer) == 31_415
    call.cancel()
    assert (await status_of(call))[0] == Status.CANCELLED


async def test_timeout_on_sleeping_server(channel: Channel) -> None:
    """The client goes on sending, and the server has nothing to send: only the deadline ends the call."""
    call = await channel.call(SERVICE + b"FullDuplexCall", None, metadata((b"grpc-timeout", b"1m")))
    call.send(output_request([], 27_182))
    assert (await status_of(call))[0] == Status.DEADLINE_EXCEEDED


async def test_concurrent_large_unary(channel: Channel) -> None:
    """A hundred at once; the published case has a thousand, of the same kind."""
    answers = await asyncio.gather(*(channel.unary(SERVICE + b"UnaryCall", LARGE, 60) for _ in range(100)))
    assert {body_size(answer, "SimpleResponse") for answer in answers} == {314_159}
