"""How connections over HTTP/2 end when the gateway leaves, or its client does (RFC 9113, 6.8)."""

import asyncio

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame, RstStreamFrame, WindowUpdateFrame

from inference.core.http2 import CANCEL, NO_ERROR
from tests.support.gateway.http2 import GET, POST, Peer, edge, get
from tests.support.wait import eventually_async

END = "END_STREAM"
LAST_OF_ALL = (1 << 31) - 1


async def received(peer: Peer) -> None:
    """Wait until the server has read all that was sent to it."""
    before = len(peer.pongs)
    peer.send(PingFrame(0, bytes(8)))
    await peer.until(lambda: len(peer.pongs) > before)


async def test_a_lame_duck_says_so_when_all_answers_of_a_connection_have_gone_out() -> None:
    """As `Connection: close` over HTTP/1.1. Some clients, httpx among them, fail what is under way on any GOAWAY."""
    hurry = asyncio.Event()
    async with edge() as server:
        peer, idle, new = [await Peer.connect(server.port) for _ in range(3)]
        peer.send(peer.head(1, POST))
        await received(peer)
        await idle.answer(idle.ask(GET))
        await received(new)
        closing = asyncio.ensure_future(server.close(60, 20, hurry))
        await eventually_async(lambda: server.closing)
        peer.send(peer.head(3, GET, END))
        assert await peer.answer(3) == (200, b"GET 0")
        late = await Peer.connect(server.port)
        for connection in (idle, new, late):
            await received(connection)
            assert not connection.goaways
            assert await connection.answer(connection.ask(GET)) == (200, b"GET 0")
            await connection.until(lambda: connection.goaways == [(LAST_OF_ALL, NO_ERROR)])  # noqa: B023
        await received(peer)
        assert not peer.goaways
        peer.send(DataFrame(1, b"abc", flags=[END]))
        assert await peer.answer(1) == (200, b"POST 3")
        await peer.until(lambda: peer.goaways == [(LAST_OF_ALL, NO_ERROR)])
        peer.send(peer.head(5, GET, END))  # it had not seen that, and is served
        assert await peer.answer(5) == (200, b"GET 0")
        await received(peer)
        assert len(peer.goaways) == 1
        hurry.set()
        await closing


async def test_it_drains() -> None:
    async with edge() as server:
        idle, peer = [await Peer.connect(server.port) for _ in range(2)]
        await idle.answer(idle.ask(GET))
        peer.send(peer.head(1, POST))
        await received(peer)
        closing = asyncio.ensure_future(server.close(0, 20, asyncio.Event()))
        await idle.until(lambda: idle.goaways == [(LAST_OF_ALL, NO_ERROR)])
        assert await idle.answer(idle.ask(GET)) == (200, b"GET 0")  # it had not seen that
        assert await idle.ends() == (3, NO_ERROR)
        await idle.close()
        await received(peer)
        assert not peer.goaways
        peer.send(peer.head(3, GET, END))  # with more and more of them it would never end
        assert await peer.answer(3) == (200, b"GET 0")
        assert peer.goaways == [(LAST_OF_ALL, NO_ERROR)]
        peer.send(DataFrame(1, b"abc", flags=[END]))
        assert await peer.answer(1) == (200, b"POST 3")
        assert await peer.ends() == (3, NO_ERROR)
        await peer.close()
        await closing
        with pytest.raises(OSError):
            await Peer.connect(server.port)


async def test_an_answer_that_is_read_slowly_is_not_cut_by_draining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.wires.http.server._FINISH_S", 3.0)
    async with edge() as server:
        peer = await Peer.connect(server.port, initial_window_size=10)
        stream = peer.ask(get("/bytes/100"))
        closing = asyncio.ensure_future(server.close(0, 20, asyncio.Event()))
        for size in range(10, 100, 10):
            await peer.until(lambda: len(peer.bodies.get(stream, b"")) == size)  # noqa: B023
            await asyncio.sleep(0.5)
            peer.send(WindowUpdateFrame(stream, 10))
        assert await peer.answer(stream) == (200, bytes(100))
        assert not peer.goaways
        assert await peer.ends() == (stream, NO_ERROR)
        await peer.close()
        await closing


async def test_requests_after_the_last_goaway_are_left_to_be_sent_again() -> None:
    """RFC 9113, 6.8."""
    async with edge() as server:
        peer = await Peer.connect(server.port)
        peer.send(peer.head(1, POST))
        await received(peer)
        [connection] = server.connections
        connection.finish()
        await peer.until(lambda: peer.goaways == [(1, NO_ERROR)])
        peer.send(peer.head(3, POST), DataFrame(3, b"abc", flags=[END]), RstStreamFrame(3, CANCEL))
        peer.send(DataFrame(1, b"a", flags=[END]))
        assert await peer.answer(1) == (200, b"POST 1")
        assert await peer.ends() == (1, NO_ERROR)
        assert 3 not in peer.heads
        assert len(server.application.begun) == 1
        await peer.close()


async def test_a_client_that_leaves_gets_what_is_due() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port, initial_window_size=10)
        stream = peer.ask(get("/bytes/1000"))
        peer.send(GoAwayFrame(0, NO_ERROR))
        await peer.until(lambda: len(peer.bodies.get(stream, b"")) == 10)
        peer.send(WindowUpdateFrame(stream, 10_000))
        assert len((await peer.answer(stream))[1]) == 1000
        assert not await peer.read()
        await peer.close()
