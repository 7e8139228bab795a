"""Windows, cancellation, floods and timeouts over HTTP/2."""

from collections.abc import Callable

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from inference.wires.http.patience import SignsOfLife
from tests.support.gateway.http2 import GET, KEY, POST, Peer, edge, get, post
from tests.support.wait import eventually_async

WINDOW = 65_535
NO_ERROR, REFUSED, CANCEL, CALM = 0, 7, 8, 11
END = "END_STREAM"
LAST_OF_ALL = (1 << 31) - 1


# Windows ------------------------------------------------------------------------------------------


async def test_an_answer_waits_for_the_windows() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port, initial_window_size=1000)
        stream = peer.ask(get("/bytes/100000"))
        await peer.until(lambda: len(peer.bodies.get(stream, b"")) == 1000)
        small = peer.ask(get("/bytes/10"))
        assert await peer.answer(small) == (200, bytes(10))  # its own window is open
        peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 2000}))
        await peer.until(lambda: len(peer.bodies[stream]) == 2000)
        peer.send(WindowUpdateFrame(stream, 1 << 20))
        await peer.until(lambda: len(peer.bodies[stream]) == WINDOW - 10)  # now the one of all is used up
        peer.send(WindowUpdateFrame(0, 1 << 20))
        assert len((await peer.answer(stream))[1]) == 100_000
        await peer.close()


async def test_a_window_may_become_negative() -> None:
    """RFC 9113, 6.9.2."""
    async with edge() as server:
        peer = await Peer.connect(server.port, initial_window_size=1000)
        stream = peer.ask(get("/bytes/3000"))
        await peer.until(lambda: len(peer.bodies.get(stream, b"")) == 1000)
        peer.send(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 100}), WindowUpdateFrame(stream, 950))
        await peer.until(lambda: peer.acknowledged == 2)
        peer.send(PingFrame(0, bytes(8)))
        await peer.until(lambda: bool(peer.pongs))
        assert len(peer.bodies[stream]) == 1050
        peer.send(WindowUpdateFrame(stream, 5000))
        assert len((await peer.answer(stream))[1]) == 3000
        await peer.close()


async def test_streams_take_turns() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port, initial_window_size=1 << 20)
        streams = [peer.ask(get("/bytes/200000")) for _ in range(4)]
        peer.send(PingFrame(0, bytes(8)))
        await peer.until(lambda: len(peer.heads) == 4)
        peer.send(WindowUpdateFrame(0, 400_000 - WINDOW))
        await peer.until(lambda: sum(map(len, peer.bodies.values())) == 400_000)
        parts = [len(peer.bodies[stream]) for stream in streams[1:]]
        assert max(parts) - min(parts) <= 2 * 16_384
        await peer.close()


async def test_a_stream_waits_for_its_reader_and_not_for_others() -> None:
    async with edge(write_timeout_s=1) as server:
        peer = await Peer.connect(server.port)
        stuck = peer.ask(get("/stream"))
        await peer.until(lambda: len(peer.bodies.get(stuck, b"")) == WINDOW)
        written = server.application.written_bytes
        assert written <= 4 << 16
        assert server.held_bytes <= 3 << 16
        peer.send(WindowUpdateFrame(0, 1 << 20))
        assert await peer.answer(peer.ask(get("/bytes/100"))) == (200, bytes(100))
        await peer.until(lambda: stuck in peer.ended)  # nobody has read it for a second
        assert peer.ended[stuck] == CANCEL
        assert server.counts.unread == 1
        assert server.application.cancelled == ["/stream"]
        assert await peer.answer(peer.ask(GET)) == (200, b"GET 0")
        await eventually_async(lambda: server.held_bytes == 0)
        await peer.close()


async def test_a_connection_that_is_not_read_is_not_read_from_and_cut() -> None:
    async with edge(write_timeout_s=1) as server:
        peer = await Peer.connect(server.port, initial_window_size=LAST_OF_ALL)
        peer.send(WindowUpdateFrame(0, LAST_OF_ALL - WINDOW))
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.ask(get("/stream"))
        await eventually_async(lambda: server.counts.unread == 1)
        await eventually_async(lambda: not server.connections)
        assert server.application.cancelled == ["/stream"]
        assert server.held_bytes == 0
        await peer.close()


async def test_large_bodies_need_a_known_key_and_come_a_few_at_a_time() -> None:
    async with edge(max_body_bytes=300_000) as server:
        peer = await Peer.connect(server.port)
        refused = peer.head(1, post("/", ("content-length", "200000")))
        peer.send(refused, DataFrame(1, bytes(1000)))
        await peer.until(lambda: 1 in peer.heads)
        assert peer.heads[1][":status"] == "401"
        too_long = peer.head(3, post("/", KEY, ("content-length", "300001")))
        peer.send(too_long)
        await peer.until(lambda: 3 in peer.heads)
        assert peer.heads[3][":status"] == "413"

        large = range(5, 5 + 2 * 6, 2)
        for stream in large:
            peer.send(peer.head(stream, post("/", KEY, ("content-length", "200000"))))
        peer.send(PingFrame(0, bytes(8)))
        await peer.until(lambda: bool(peer.pongs))
        assert [peer.windows.get(stream, 0) for stream in large] == [300_000] * 4 + [0] * 2
        for stream in large:
            await peer.until(lambda: peer.windows.get(stream, 0) > 0)  # noqa: B023
            body = bytes(200_000)
            peer.send(*(DataFrame(stream, body[at : at + 16_384]) for at in range(0, len(body), 16_384)))
            peer.send(DataFrame(stream, b"", flags=[END]))
            assert await peer.answer(stream) == (200, b"POST 200000")
        await eventually_async(lambda: server.held_bytes == 0)
        assert peer.windows[0] > 6 * 200_000 - WINDOW  # what was read may be sent again
        await peer.until(lambda: peer.ended.get(1) == NO_ERROR == peer.ended.get(3))  # the rest is not wanted
        await peer.close()


async def test_a_body_whose_length_is_not_said_has_the_same_bounds() -> None:
    async with edge(max_body_bytes=100_000) as server:
        peer = await Peer.connect(server.port)
        stranger, known = peer.head(1, POST), peer.head(3, post("/", KEY))
        part = bytes(16_000)
        peer.send(stranger, *[DataFrame(1, part)] * 3)
        await peer.until(lambda: 1 in peer.heads)
        assert peer.heads[1][":status"] == "401"
        peer.send(known, *[DataFrame(3, part)] * 7)
        await peer.until(lambda: 3 in peer.heads)
        assert peer.heads[3][":status"] == "413"
        past = peer.head(5, POST)
        peer.send(past, *[DataFrame(5, b"x" * 13_107)] * 2, *[DataFrame(5, b"x" * 16_000)] * 3)
        await peer.until(lambda: 5 in peer.heads)
        assert peer.heads[5][":status"] == "401"
        await peer.close()


# Cancellation -------------------------------------------------------------------------------------


async def test_a_reset_cancels_its_request_alone_and_the_end_of_the_connection_all() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port)
        streams = [peer.ask(get("/wait")) for _ in range(3)]
        await eventually_async(lambda: len(server.application.begun) == 3)
        peer.send(RstStreamFrame(streams[1], CANCEL))
        await eventually_async(lambda: server.application.cancelled == ["/wait"])
        assert await peer.answer(peer.ask(GET)) == (200, b"GET 0")
        await peer.close()
        await eventually_async(lambda: len(server.application.cancelled) == 3)
        assert not server.connections


async def test_a_bug_ends_its_stream_alone() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port)
        stream = peer.ask(get("/fails"))
        await peer.until(lambda: stream in peer.ended)
        assert peer.ended[stream] == 2
        assert await peer.answer(peer.ask(GET)) == (200, b"GET 0")
        await peer.close()


# Floods -------------------------------------------------------------------------------------------


async def test_more_streams_than_announced_are_refused() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port)
        streams = [peer.ask(get("/wait")) for _ in range(103)]
        await peer.until(lambda: len(peer.ended) == 3)
        assert peer.ended == dict.fromkeys(streams[100:], REFUSED)
        peer.send(RstStreamFrame(streams[0], CANCEL))
        assert await peer.answer(peer.ask(GET)) == (200, b"GET 0")
        await peer.close()


def rapid_resets(peer: Peer) -> list[Frame | bytes]:
    """CVE-2023-44487."""
    frames: list[Frame | bytes] = []
    for stream in range(1, 4001, 2):
        frames += [peer.head(stream, get("/wait"), END), RstStreamFrame(stream, CANCEL)]
    return frames


FLOODS: dict[str, Callable[[Peer], list[Frame | bytes]]] = {
    "rapid resets": rapid_resets,
    "pings": lambda peer: [PingFrame(0, bytes(8))] * 2000,
    "settings": lambda peer: [SettingsFrame(0, {4: 1000})] * 2000,
    "priorities": lambda peer: [PriorityFrame(1)] * 2000,
    "empty data": lambda peer: [peer.head(1, POST), *[DataFrame(1, b"")] * 2000],
    "tiny windows": lambda peer: [WindowUpdateFrame(0, 1)] * 2000,
    "malformed requests": lambda peer: [
        HeadersFrame(n, b"\x82", flags=["END_HEADERS", END]) for n in range(1, 4001, 2)
    ],
    "a head without end": lambda peer: [HeadersFrame(1, b"\x82"), *[ContinuationFrame(1, b"")] * 2000],
    "a long head without end": lambda peer: [HeadersFrame(1, b"\x82"), *[ContinuationFrame(1, bytes(16_384))] * 5],
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_what_asks_for_nothing_ends_the_connection(flood: Callable[[Peer], list[Frame | bytes]]) -> None:
    async with edge() as server:
        peer, other = await Peer.connect(server.port), await Peer.connect(server.port)
        peer.send(*flood(peer))
        assert (await peer.ends())[1] == CALM
        await peer.close()
        assert server.counts.flooded == 1
        assert await other.answer(other.ask(GET)) == (200, b"GET 0")
        assert len(server.application.begun) < 510
        await eventually_async(lambda: len(server.connections) == 1)
        await other.close()


async def test_who_gets_answers_may_ping_for_ever() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port)
        for number in range(700):
            peer.send(PingFrame(0, bytes(8)))
            stream = peer.ask(GET)
            if number % 50 == 49:
                await peer.answer(stream)
        await peer.until(lambda: len(peer.pongs) == 700)
        assert not peer.goaways
        await peer.close()


async def test_heads_have_bounds() -> None:
    async with edge() as server:
        peer = await Peer.connect(server.port)
        for fields in ([("x-a", "b" * 4000)] * 17, [(f"x-{number}", "b") for number in range(125)]):
            stream = peer.ask([*GET, *fields])
            status, body = await peer.answer(stream)
            assert (status, b"headers" in body) == (431, True)
        assert await peer.answer(peer.ask(GET)) == (200, b"GET 0")
        bomb = peer.encoder.encode([*GET, ("x-a", "b" * 4000)]) + peer.encoder.encode([("x-a", "b" * 4000)]) * 15_000
        assert len(bomb) < 20_000  # of 60 MB
        peer.send(HeadersFrame(901, bomb[:16_000]), ContinuationFrame(901, bomb[16_000:], flags=["END_HEADERS"]))
        assert (await peer.ends())[1] == 9
        assert server.held_bytes == 0
        await peer.close()


async def test_requests_that_do_not_come_are_timed_out_alone() -> None:
    async with edge(read_timeout_s=1) as server:
        silent, peer = await Peer.connect(server.port), await Peer.connect(server.port)
        peer.send(peer.head(1, POST), DataFrame(1, b"a"))
        waits = peer.head(3, get("/wait"), END)
        peer.send(waits)
        await peer.until(lambda: 1 in peer.ended)
        assert peer.ended[1] == CANCEL
        assert 3 not in peer.ended
        assert (await silent.ends()) == (0, NO_ERROR)  # it has begun no request
        assert server.counts.timed_out == 2
        await silent.close()
        await peer.close()


async def test_idle_connections_are_ended_with_goaway() -> None:
    async with edge(idle_timeout_s=0.5) as server:
        peer = await Peer.connect(server.port)
        await peer.answer(peer.ask(GET))
        assert await peer.ends() == (1, NO_ERROR)
        await peer.close()


def test_a_client_without_a_sign_of_life_is_noticed() -> None:
    life = SignsOfLife()
    assert life.look(100.0, True) == b""  # it had been heard
    assert life.look(114.0, True) == b""
    ping = life.look(116.0, True)
    assert ping is not None
    assert Frame.parse_frame_header(memoryview(ping)[:9])[0].type == PingFrame.type
    assert life.look(117.0, True) == b""
    life.heard = True
    assert life.look(130.0, True) == b""
    assert life.look(146.0, True) == ping
    assert life.look(162.0, True) is None
    assert life.look(162.0, False) == b""  # it waits for nothing
