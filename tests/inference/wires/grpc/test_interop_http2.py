"""gRPC's published negative HTTP/2 interop cases (grpc/doc/http2-interop-test-descriptions.md)."""

import asyncio

import pytest

from inference.wires.grpc import Channel, GrpcError
from tests.support.grpc.http2_server import SIZE, Http2Server
from tests.support.grpc.interop import MESSAGES

UNARY = b"/grpc.testing.TestService/UnaryCall"
LARGE = MESSAGES["SimpleRequest"](response_size=SIZE, payload={"body": bytes(271_828)}).SerializeToString()


async def large_unary(channel: Channel) -> int:
    answer = await channel.unary(UNARY, LARGE, 20)
    return len(MESSAGES["SimpleResponse"].FromString(answer).payload.body)


async def test_goaway() -> None:
    async with Http2Server("goaway") as server:
        channel = Channel(server.target, connect_timeout_s=120)
        assert [await large_unary(channel), await large_unary(channel)] == [SIZE, SIZE]
        assert server.connections == 2
        channel.close()


@pytest.mark.parametrize("case", ["rst_after_header", "rst_during_data", "rst_after_data"])
async def test_resets(case: str) -> None:
    async with Http2Server(case) as server:
        channel = Channel(server.target, connect_timeout_s=120)
        with pytest.raises(GrpcError):
            await large_unary(channel)
        assert channel.calls == 0
        channel.close()


async def test_ping() -> None:
    async with Http2Server("ping") as server:
        channel = Channel(server.target, connect_timeout_s=120)
        assert await large_unary(channel) == SIZE
        async with asyncio.timeout(120):
            await server.all_answered.wait()
        channel.close()


async def test_max_streams() -> None:
    async with Http2Server("max_streams") as server:
        channel = Channel(server.target, connect_timeout_s=120)
        assert await large_unary(channel) == SIZE
        assert await asyncio.gather(*(large_unary(channel) for _ in range(10))) == [SIZE] * 10
        assert server.most_at_once == 1
        channel.close()


@pytest.mark.parametrize("case", ["data_frame_padding", "no_df_padding_sanity_test"])
async def test_padding(case: str) -> None:
    """Fifteen megabytes of padding: flow control has to count it."""
    async with Http2Server(case) as server:
        channel = Channel(server.target, connect_timeout_s=120)
        assert await large_unary(channel) == SIZE
        channel.close()
