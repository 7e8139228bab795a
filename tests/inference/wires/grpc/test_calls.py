"""The gateway's gRPC client against gRPC's own server."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.wires.grpc import Channel, GrpcError, RefusedError, Status, UnreachableError
from inference.wires.grpc import http2 as h2
from inference.wires.grpc.channel import metadata
from tests.support.wait import eventually_async


class Server(grpc.GenericRpcHandler):
    """`/t/Echo` sends its input back `x-times` times; the others do what their names say."""

    def __init__(self) -> None:
        self.sent = 0  # by `Flood`
        self.hangs = 0
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()

    def service(self, details: Any) -> Any:
        method = getattr(self, details.method.rpartition("/")[2].lower(), None)
        return grpc.stream_stream_rpc_method_handler(method) if method else None

    async def echo(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        given = dict(context.invocation_metadata())
        async for request in requests:
            for _ in range(int(given.get("x-times", "1"))):
                yield request

    async def flood(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """A thousand messages of 64 KiB."""
        for self.sent in range(1, 1001):
            yield bytes(64 << 10)

    async def fail(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "zu voll: ä%")

    async def wait(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await self.release.wait()
        yield b"two"

    async def hang(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        self.hangs += 1
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Server, Any, str]]:
    handler, server = Server(), grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield handler, server, f"127.0.0.1:{port}"
    await server.stop(None)


async def all_of(channel: Channel, path: bytes, body: bytes, times: int = 1) -> list[bytes]:
    call = await channel.call(path, body, metadata((b"x-times", b"%d" % times)))
    out = []
    while (message := await call.read()) is not None:
        out.append(message)
    return out


@pytest.mark.parametrize("size", [0, 1, 16_370, 65_535, 3_000_000])
async def test_messages_of_any_size_go_both_ways(served: tuple[Server, Any, str], size: int) -> None:
    """The largest needs both sides' flow control, several times over."""
    channel, body = Channel(served[2]), bytes(range(256)) * (size // 256 + 1)
    assert await all_of(channel, b"/t/Echo", body[:size], 3) == [body[:size]] * 3
    channel.close()


async def test_calls_share_one_connection_and_do_not_wait_for_each_other(served: tuple[Server, Any, str]) -> None:
    channel = Channel(served[2])
    hanging = await channel.call(b"/t/Hang", b"")
    bodies = [b"%d" % number * 1000 for number in range(200)]
    answers = await asyncio.gather(*(all_of(channel, b"/t/Echo", body, 5) for body in bodies))
    assert answers == [[body] * 5 for body in bodies]
    assert channel.calls == 1
    hanging.cancel()
    channel.close()


async def test_a_server_whose_answer_is_not_read_stops_sending(served: tuple[Server, Any, str]) -> None:
    server, _, address = served
    channel = Channel(address)
    unread = await channel.call(b"/t/Flood", b"x")
    await eventually_async(lambda: server.sent << 16 >= 4 << 20)
    for _ in range(50):  # others are served meanwhile
        assert await all_of(channel, b"/t/Echo", b"x") == [b"x"]
    assert server.sent << 16 < 12 << 20
    received = 0
    while (message := await unread.read()) is not None:
        received += len(message)
    assert received == 1000 << 16
    channel.close()


async def test_cancelling_reaches_the_server(served: tuple[Server, Any, str]) -> None:
    handler, _, target = served
    channel = Channel(target)
    call = await channel.call(b"/t/Hang", b"")
    assert await call.read() == b"one"
    call.cancel()
    async with asyncio.timeout(120):
        await handler.cancelled.wait()
    assert channel.calls == 0
    channel.close()


async def test_losing_the_server_fails_calls_in_flight_and_the_channel_comes_back(
    served: tuple[Server, Any, str],
) -> None:
    _, server, target = served
    channel = Channel(target)
    call = await channel.call(b"/t/Hang", b"")
    assert await call.read() == b"one"
    await server.stop(None)
    with pytest.raises(GrpcError):
        await call.read()
    with pytest.raises(UnreachableError):
        await channel.call(b"/t/Echo", b"")
    again = grpc.aio.server()
    again.add_generic_rpc_handlers((Server(),))
    assert again.add_insecure_port(target)
    await again.start()
    async with asyncio.timeout(120):
        while True:
            try:
                assert await all_of(channel, b"/t/Echo", b"x") == [b"x"]
                break
            except UnreachableError:
                await asyncio.sleep(0.01)
    channel.close()
    await again.stop(None)


async def test_a_graceful_end_of_the_server_lets_calls_finish(served: tuple[Server, Any, str]) -> None:
    """GOAWAY: no new calls on this connection; the one in flight goes on until it is done."""
    handler, server, target = served
    channel = Channel(target)
    call = await channel.call(b"/t/Wait", b"")
    assert await call.read() == b"one"
    stopping = asyncio.ensure_future(server.stop(30))
    async with asyncio.timeout(120):
        while True:  # until the server's GOAWAY is here, after which nothing listens
            try:
                await all_of(channel, b"/t/Echo", b"")
            except (GrpcError, UnreachableError):
                break
    handler.release.set()
    assert [await call.read(), await call.read()] == [b"two", None]
    await stopping
    channel.close()


async def test_what_is_no_grpc_server_is_unreachable() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    channel = Channel(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(UnreachableError):
        await channel.call(b"/t/Echo", b"")
    server.close()


async def test_a_call_that_takes_too_long_is_given_up(served: tuple[Server, Any, str]) -> None:
    handler, _, target = served
    channel = Channel(target)

    timeout_s = 0.1
    while not handler.hangs:  # a call may be over before its server has begun with it
        with pytest.raises(GrpcError) as caught:
            await channel.unary(b"/t/Hang", b"", timeout_s)
        assert caught.value.status is Status.DEADLINE_EXCEEDED
        timeout_s *= 2
    async with asyncio.timeout(120):
        await handler.cancelled.wait()
    assert channel.calls == 0
    channel.close()


@pytest.fixture
async def narrow() -> AsyncIterator[tuple[Server, Any, str]]:
    """A server that takes two calls at once."""
    handler, server = Server(), grpc.aio.server(options=[("grpc.max_concurrent_streams", 2)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield handler, server, f"127.0.0.1:{port}"
    await server.stop(None)


async def test_calls_over_the_servers_limit_wait_in_order_of_priority(narrow: tuple[Server, Any, str]) -> None:
    handler, _, target = narrow
    channel = Channel(target)
    begun = [await channel.call(b"/t/Wait", b"") for _ in range(2)]
    for call in begun:
        assert await call.read() == b"one"
    assert channel.full
    order: list[str] = []

    async def echo(name: str, priority: int) -> None:
        call = await channel.call(b"/t/Echo", name.encode(), priority=priority)
        assert call.waiting
        await call.sent()
        order.append(name)
        assert await call.read() == name.encode()
        assert await call.read() is None

    waiting = [asyncio.ensure_future(echo(name, priority)) for name, priority in (("a", 2), ("b", 2), ("c", 1))]
    left = await channel.call(b"/t/Echo", b"left", priority=0)
    with pytest.raises(GrpcError) as late:
        await channel.unary(b"/t/Echo", b"", 0.05)
    assert late.value.status is Status.DEADLINE_EXCEEDED
    left.cancel()
    begun[0].cancel()  # one place
    await asyncio.gather(*waiting)
    assert order == ["c", "a", "b"]
    handler.release.set()
    assert [await begun[1].read(), await begun[1].read()] == [b"two", None]
    assert channel.calls == 0
    channel.close()


async def test_calls_that_wait_are_lost_with_the_connection_and_refused_by_its_end(
    narrow: tuple[Server, Any, str],
) -> None:
    handler, server, target = narrow
    channel = Channel(target)
    begun = [await channel.call(b"/t/Wait", b"") for _ in range(2)]
    waiting = await channel.call(b"/t/Echo", b"")
    channel.disconnect()
    with pytest.raises(UnreachableError) as lost:
        await waiting.sent()
    assert not isinstance(lost.value, RefusedError)
    begun = [await channel.call(b"/t/Wait", b"") for _ in range(2)]
    for call in begun:
        assert await call.read() == b"one"
    waiting = await channel.call(b"/t/Echo", b"")
    stopping = asyncio.ensure_future(server.stop(30))  # GOAWAY: those in flight may finish
    with pytest.raises(RefusedError):
        await waiting.sent()
    handler.release.set()
    for call in begun:
        assert [await call.read(), await call.read()] == [b"two", None]
    await stopping
    channel.close()


@contextlib.asynccontextmanager
async def refusing(times: int, limit: int, *, begins: bool = False) -> AsyncIterator[str]:
    """A server that takes `limit` calls at once, refuses the first `times`, and answers the others OK without a message.

    One that `begins` sends headers before it refuses, which HTTP/2 forbids.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(h2.PREFACE))
        writer.write(h2.settings([(h2.MAX_CONCURRENT_STREAMS, limit)]))
        refused = 0
        while head := await reader.read(h2.HEAD_BYTES):
            size, kind, _, stream = h2.parse_head(head, 0)
            await reader.readexactly(size)
            if kind == h2.HEADERS and refused < times:
                refused += 1
                if begins:
                    first = h2.literal(b":status", b"200") + h2.literal(b"content-type", b"application/grpc")
                    writer.write(h2.frame(h2.HEADERS, h2.END_HEADERS, stream, first))
                writer.write(h2.reset(stream, h2.REFUSED_STREAM))
            elif kind == h2.HEADERS:
                trailers = h2.literal(b":status", b"200") + h2.literal(b"grpc-status", b"0")
                writer.write(h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, stream, trailers))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_call_that_is_refused_at_the_servers_limit_is_sent_again() -> None:
    async with refusing(times=3, limit=1) as target:
        channel = Channel(target)
        call, late = await channel.call(b"/t/Echo", b"a"), await channel.call(b"/t/Echo", b"b")
        async with asyncio.timeout(120):
            assert [await call.read(), await late.read()] == [None, None]
        channel.close()


async def test_a_call_that_the_server_has_begun_to_answer_is_not_sent_again() -> None:
    async with refusing(times=1, limit=1, begins=True) as target:
        channel = Channel(target)
        with pytest.raises(RefusedError):
            async with asyncio.timeout(120):
                await (await channel.call(b"/t/Echo", b"")).read()
        channel.close()


async def test_a_call_that_is_refused_below_the_limit_is_the_callers_to_send_again() -> None:
    async with refusing(times=1, limit=2) as target:
        channel = Channel(target)
        with pytest.raises(RefusedError):
            await (await channel.call(b"/t/Echo", b"")).read()
        assert await (await channel.call(b"/t/Echo", b"")).read() is None
        channel.close()


async def test_an_abandoned_attempt_to_connect_logs_nothing() -> None:
    """A server that hangs takes connections and sends nothing, so each probe ends just before the attempt does."""
    untaken: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: untaken.append(context["message"]))
    with socket.create_server(("127.0.0.1", 0)) as hung:
        try:
            channel = Channel(f"127.0.0.1:{hung.getsockname()[1]}", connect_timeout_s=0.1)
            for _ in range(3):
                with pytest.raises((GrpcError, UnreachableError)):  # the latter where this process was held up
                    await channel.unary(b"/t/Echo", b"", 0.05)
                await asyncio.sleep(0.3)  # until the attempt has ended, and its back-off
                gc.collect()
            assert untaken == []
        finally:
            loop.set_exception_handler(None)


@pytest.mark.parametrize("host", ["a-.-b", "x" * 63 + ".invalid", "no-such-host.invalid"])
async def test_a_host_that_cannot_be_is_unreachable(host: str) -> None:
    channel = Channel(f"{host}:80")
    with pytest.raises(UnreachableError):
        await channel.call(b"/t/Echo", b"")


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=300)), max_size=8))
def test_headers_are_read_as_they_were_written(pairs: list[tuple[bytes, bytes]]) -> None:
    block = b"".join(h2.literal(name, value) for name, value in pairs)
    assert h2.decode_headers(block) == dict(pairs)


@given(st.binary(max_size=100))
def test_headers_that_make_no_sense_are_a_protocol_error(block: bytes) -> None:
    with suppress(h2.ProtocolError):
        h2.decode_headers(block)
