"""What comes over HTTP/2 in any parts, what only looks like it, and what is none."""

import asyncio
import os
import random

import pytest
from hyperframe.frame import DataFrame, SettingsFrame

from deploy.local.ports import LOOPBACK
from tests.support.gateway.http2 import GET, POST, PREFACE, Peer, edge, get
from tests.support.wait import eventually_async

END = "END_STREAM"
LAST_OF_ALL = (1 << 31) - 1


async def test_bytes_may_come_in_any_parts() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port, greet=False)
        frames = [SettingsFrame(0), peer.head(1, POST), DataFrame(1, b"abc", flags=[END]), peer.head(3, GET, END)]
        for byte in PREFACE + b"".join(frame.serialize() for frame in frames):
            peer.send(bytes([byte]))
            await peer.writer.drain()
            await asyncio.sleep(0)
        assert [await peer.answer(1), await peer.answer(3)] == [(200, b"POST 3"), (200, b"GET 0")]
        await peer.close()


@pytest.mark.parametrize("start", [b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"])
async def test_what_only_begins_as_http2_is_http1(start: bytes) -> None:
    async with edge() as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(start)
        await eventually_async(lambda: len(server.connections) == 1)
        writer.write(b"OST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na")
        answer = await reader.readuntil(b"\r\n")
        assert answer.split()[1] == (b"200" if start == b"P" else b"400") or answer.split()[1] == b"505"
        writer.close()


async def test_it_can_be_switched_off() -> None:
    async with edge(http2=False) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(PREFACE)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 ")
        writer.close()


async def test_random_bytes_end_their_connection_and_nothing_else() -> None:
    seed = int(os.environ.get("TEST_SEED", "7"))
    chance = random.Random(seed)
    async with edge() as server:
        for _ in range(150):
            peer = await Peer.connect(server.port)
            for _ in range(chance.randrange(1, 12)):
                kind, flags, size = chance.randrange(11), chance.choice([0, 1, 4, 5, 8, 32, 255]), chance.randrange(12)
                payload = chance.choice([chance.randbytes(size), bytes(size), peer.encoder.encode(get("/wait"))])
                stream = chance.choice([0, 1, 1, 3, 5, 2, LAST_OF_ALL])
                frame = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
                peer.send(frame)
            await peer.close()
        await eventually_async(lambda: not server.connections)
        assert server.held_bytes == 0
        assert len(server.application.begun) == len(server.application.cancelled)
        good = await Peer.connect(server.port)
        assert await good.answer(good.ask(GET)) == (200, b"GET 0")
        await good.close()
