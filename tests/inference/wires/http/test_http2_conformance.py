"""HTTP/2 as RFC 9113 demands it of a server: each case names its section.

The cases of h2spec (github.com/summerwind/h2spec) that RFC 9113 still demands are among them.
"""

import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.support.gateway.http2 import GET, POST, PREFACE, Edge, Peer, edge, get, post

NO_ERROR, PROTOCOL, FLOW_CONTROL, CLOSED, FRAME_SIZE, REFUSED, CANCEL = 0, 1, 3, 5, 6, 7, 8
COMPRESSION, CALM = 9, 11
END = "END_STREAM"
Sent = list[Frame | bytes]
Frames = Callable[[Peer], Sent]


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Edge]:
    async with edge() as running:
        yield running


def raw(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def padded(peer: Peer) -> Sent:
    head = peer.head(1, POST, "PADDED", "PRIORITY")
    head.pad_length = 7
    return [head, DataFrame(1, b"abc", pad_length=200, flags=["PADDED", END])]


def continued(peer: Peer) -> Sent:
    block = peer.encoder.encode(GET)
    return [
        HeadersFrame(1, block[:1], flags=[END]),
        ContinuationFrame(1, b""),
        ContinuationFrame(1, block[1:], flags=["END_HEADERS"]),
    ]


def split(peer: Peer) -> tuple[bytes, bytes]:
    block = peer.encoder.encode(GET)
    return block[:2], block[2:]


SERVED: dict[str, Frames] = {
    "8.1: a request without a body": lambda it: [it.head(1, GET, END)],
    "8.1: a body in several frames": lambda it: [it.head(1, POST), DataFrame(1, b"a"), DataFrame(1, b"b", flags=[END])],
    "8.1: trailers": lambda it: [it.head(1, POST), DataFrame(1, b"a"), it.head(1, [("x-sum", "1")], END)],
    "8.1.1: content-length is the body's": lambda it: [
        it.head(1, post("/", ("content-length", "2"))),
        DataFrame(1, b"a"),
        DataFrame(1, b"b"),
        DataFrame(1, b"", flags=[END]),
    ],
    "8.2.3: cookies in several fields": lambda it: [it.head(1, [*GET, ("cookie", "a=b"), ("cookie", "c=d")], END)],
    "8.2.2: te with trailers": lambda it: [it.head(1, [*GET, ("te", "trailers")], END)],
    "8.3.1: host beside the same :authority": lambda it: [it.head(1, [*GET, ("host", "x")], END)],
    "8.3.1: host in the place of :authority": lambda it: [it.head(1, [*GET[:3], ("host", "x")], END)],
    "6.1, 6.2: padding, and a priority": padded,
    "6.10: a head over three frames": continued,
    "5.1.1: streams may be left out": lambda it: [it.head(9, GET, END), it.head(11, GET, END)],
    "5.5, 4.1: frames of unknown kinds": lambda it: [raw(200, 255, 1, b"abc"), it.head(1, GET, END)],
    "5.5, 6.5.2: unknown settings": lambda it: [SettingsFrame(0, {99: 7}), it.head(1, GET, END)],
    "4.1: unknown flags": lambda it: [raw(6, 0b11111110, 0, bytes(8)), it.head(1, GET, END)],
    "6.3: PRIORITY of a stream that has not begun": lambda it: [PriorityFrame(3), it.head(1, GET, END)],
    "6.5: several settings at once": lambda it: [
        SettingsFrame(0, {1: 0, 3: 1, 4: 100_000, 5: 1 << 20, 6: 1000}),
        it.head(1, GET, END),
    ],
    "6.9: a window of a stream that has ended": lambda it: [it.head(1, GET, END), WindowUpdateFrame(1, 100)],
    "7: GOAWAY of a client lets its requests finish": lambda it: [it.head(1, GET, END), GoAwayFrame(0, 0)],
    "RFC 7541, 4.2: a smaller table": lambda it: [
        SettingsFrame(0, {1: 0}),
        it.head(1, GET, END),
    ],
}


@pytest.mark.parametrize("frames", SERVED.values(), ids=SERVED)
async def test_what_is_allowed_is_served(server: Edge, frames: Frames) -> None:
    peer = await Peer.connect(server.port)
    sent = frames(peer)
    peer.send(*sent)
    first = next(it.stream_id for it in sent if isinstance(it, HeadersFrame))
    status, body = await peer.answer(first)
    assert status == 200
    assert body.split()[0] in (b"GET", b"POST")
    await peer.close()


def bad_head(*fields: tuple[str, str], base: Any = GET) -> Frames:
    return lambda it: [it.head(1, [*base, *fields], END)]


def without(name: str) -> Frames:
    return lambda it: [it.head(1, [field for field in GET if field[0] != name], END)]


MALFORMED: dict[str, Frames] = {
    "8.2.1: a name in upper case": lambda it: [
        HeadersFrame(1, it.encoder.encode(GET) + b"\0\3X-a\1b", flags=["END_HEADERS", END])
    ],
    "8.2.1: a blank in a name": bad_head(("x a", "b")),
    "8.2.1: no name": bad_head(("", "b")),
    "8.2.1: a colon in a name": bad_head(("x:a", "b")),
    "8.2.1: a line end in a value": bad_head(("x-a", "b\r\nc: d")),
    "8.2.1: a NUL in a value": bad_head(("x-a", "b\0")),
    "8.2.1: white space before a value": bad_head(("x-a", " b")),
    "8.2.1: white space after a value": bad_head(("x-a", "b\t")),
    "8.2.2: connection": bad_head(("connection", "close")),
    "8.2.2: keep-alive": bad_head(("keep-alive", "5")),
    "8.2.2: proxy-connection": bad_head(("proxy-connection", "close")),
    "8.2.2: transfer-encoding": bad_head(("transfer-encoding", "chunked")),
    "8.2.2: upgrade": bad_head(("upgrade", "h2c")),
    "8.2.2: te without trailers": bad_head(("te", "gzip")),
    "8.3: an unknown pseudo-header": bad_head((":test", "x")),
    "8.3: one of answers": bad_head((":status", "200")),
    "8.3: one after other fields": lambda it: [it.head(1, [*GET[:3], ("x-a", "b"), GET[3]], END)],
    "8.3.1: no method": without(":method"),
    "8.3.1: no scheme": without(":scheme"),
    "8.3.1: no path": without(":path"),
    "8.3.1: neither :authority nor host": without(":authority"),
    "8.3.1: an empty path": lambda it: [it.head(1, get(""), END)],
    "8.3.1: a path without a slash": lambda it: [it.head(1, get("healthz"), END)],
    "8.3.1: two methods": lambda it: [it.head(1, [GET[0], *GET], END)],
    "8.3.1: a method that is none": lambda it: [it.head(1, [(":method", "G T"), *GET[1:]], END)],
    "8.3.1: another host than :authority": bad_head(("host", "y")),
    "8.3.1: an authority that is none": lambda it: [it.head(1, [*GET[:3], (":authority", "a b")], END)],
    "two keys, of which two readers may use different ones": bad_head(("authorization", "a"), ("authorization", "b")),
    "8.1.1: a content-length that is no number": bad_head(("content-length", "1a"), base=POST),
    "8.1.1: two of them": bad_head(("content-length", "0"), ("content-length", "0"), base=POST),
    "8.1.1: a body announced that does not come": bad_head(("content-length", "3"), base=POST),
    "8.1.1: less of it": lambda it: [it.head(1, post("/", ("content-length", "3"))), DataFrame(1, b"ab", flags=[END])],
    "8.1.1: more of it": lambda it: [
        it.head(1, post("/", ("content-length", "3"))),
        DataFrame(1, b"abcd", flags=[END]),
    ],
    "8.1.1: less of it, with trailers": lambda it: [
        it.head(1, post("/", ("content-length", "3"))),
        it.head(1, [("x-a", "b")], END),
    ],
    "8.1: a second head that is not the end": lambda it: [it.head(1, POST), it.head(1, [("x-a", "b")])],
    "8.1: pseudo-headers in trailers": lambda it: [it.head(1, POST), it.head(1, [(":method", "GET")], END)],
}


@pytest.mark.parametrize("frames", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_request_is_answered_and_ends_alone(server: Edge, frames: Frames) -> None:
    peer = await Peer.connect(server.port)
    begun = len(server.application.begun)
    peer.send(*frames(peer))
    await peer.until(lambda: peer.ended.get(1) == PROTOCOL)
    assert peer.heads[1][":status"] == "400"
    assert b'"bad_request"' in peer.bodies[1]
    assert len(server.application.begun) == begun
    peer.send(peer.head(3, GET, END))
    assert await peer.answer(3) == (200, b"GET 0")  # nobody else on the connection minds
    await peer.close()


def waiting(peer: Peer) -> HeadersFrame:
    """A request whose answer does not come."""
    return peer.head(1, get("/wait"), END)


STREAM_ERRORS: dict[str, tuple[Frames, int]] = {
    "5.1: data after the end": (lambda it: [waiting(it), DataFrame(1, b"a")], CLOSED),
    "5.1: a head after the end": (lambda it: [waiting(it), it.head(1, [("x-a", "b")], END)], CLOSED),
    "6.9: a window widened by nothing": (lambda it: [waiting(it), raw(8, 0, 1, bytes(4))], PROTOCOL),
    "6.9.1: a window of more than 2^31-1": (
        lambda it: [waiting(it), WindowUpdateFrame(1, (1 << 31) - 1)],
        FLOW_CONTROL,
    ),
}


@pytest.mark.parametrize(("frames", "code"), STREAM_ERRORS.values(), ids=STREAM_ERRORS)
async def test_an_error_of_a_stream_ends_it_alone(server: Edge, frames: Frames, code: int) -> None:
    peer = await Peer.connect(server.port)
    peer.send(*frames(peer))
    await peer.until(lambda: 1 in peer.ended)
    assert peer.ended[1] == code
    peer.send(peer.head(3, GET, END))
    assert await peer.answer(3) == (200, b"GET 0")
    await peer.close()


def ended(peer: Peer) -> Sent:
    """A stream that was reset by the client."""
    return [waiting(peer), RstStreamFrame(1, CANCEL)]


CONNECTION_ERRORS: dict[str, tuple[Frames, int]] = {
    "3.4: the first frame is no SETTINGS": (lambda it: [PREFACE, it.head(1, GET, END)], PROTOCOL),
    "3.4: it is an acknowledgement": (lambda it: [PREFACE, SettingsFrame(0, flags=["ACK"])], PROTOCOL),
    "4.2: a frame that is too long": (lambda it: [it.head(1, POST), raw(0, 0, 1, bytes(16_385))], FRAME_SIZE),
    "4.3: a head that cannot be decoded": (lambda it: [HeadersFrame(1, b"\x82\xff\xff\xff\xff", flags=["END_HEADERS"])], COMPRESSION),
    "4.3: an index past the table": (lambda it: [HeadersFrame(1, b"\xfe", flags=["END_HEADERS", END])], COMPRESSION),
    "5.1: data on a stream that has not begun": (lambda it: [DataFrame(1, b"a")], PROTOCOL),
    "5.1: RST_STREAM of one": (lambda it: [RstStreamFrame(1, CANCEL)], PROTOCOL),
    "5.1: WINDOW_UPDATE of one": (lambda it: [WindowUpdateFrame(1, 100)], PROTOCOL),
    "5.1: data after RST_STREAM": (lambda it: [*ended(it), DataFrame(1, b"a")], CLOSED),
    "5.1: a head after RST_STREAM": (lambda it: [*ended(it), it.head(1, GET, END)], CLOSED),
    "5.1.1: an even stream": (lambda it: [it.head(2, GET, END)], PROTOCOL),
    "5.1.1: an older stream": (lambda it: [it.head(5, get("/wait"), END), it.head(3, GET, END)], CLOSED),
    "6.1: data on stream 0": (lambda it: [raw(0, 1, 0, b"a")], PROTOCOL),
    "6.1: more padding than payload": (lambda it: [it.head(1, POST), raw(0, 8, 1, b"\x05abcd")], PROTOCOL),
    "6.2: a head on stream 0": (lambda it: [raw(1, 5, 0, it.encoder.encode(GET))], PROTOCOL),
    "6.2: more padding than head": (lambda it: [raw(1, 13, 1, b"\xff" + it.encoder.encode(GET))], PROTOCOL),
    "6.2: another frame inside a head": (lambda it: [HeadersFrame(1, split(it)[0], flags=[END]), PingFrame(0, bytes(8))], PROTOCOL),
    "6.2: another stream inside a head": (
        lambda it: [HeadersFrame(1, split(it)[0], flags=[END]), ContinuationFrame(3, split(it)[1], flags=["END_HEADERS"])],
        PROTOCOL,
    ),
    "6.3: PRIORITY on stream 0": (lambda it: [raw(2, 0, 0, bytes(5))], PROTOCOL),
    "6.3: PRIORITY of another length": (lambda it: [raw(2, 0, 1, bytes(4))], FRAME_SIZE),
    "6.4: RST_STREAM on stream 0": (lambda it: [raw(3, 0, 0, bytes(4))], PROTOCOL),
    "6.4: RST_STREAM of another length": (lambda it: [waiting(it), raw(3, 0, 1, bytes(3))], FRAME_SIZE),
    "6.5: SETTINGS on a stream": (lambda it: [raw(4, 0, 1)], PROTOCOL),
    "6.5: SETTINGS of another length": (lambda it: [raw(4, 0, 0, bytes(5))], FRAME_SIZE),
    "6.5: an acknowledgement with settings": (lambda it: [raw(4, 1, 0, bytes(6))], FRAME_SIZE),
    "6.5.2: ENABLE_PUSH of 2": (lambda it: [SettingsFrame(0, {2: 2})], PROTOCOL),
    "6.5.2: INITIAL_WINDOW_SIZE of 2^31": (lambda it: [SettingsFrame(0, {4: 1 << 31})], FLOW_CONTROL),
    "6.5.2: MAX_FRAME_SIZE of 16,383": (lambda it: [SettingsFrame(0, {5: 16_383})], PROTOCOL),
    "6.5.2: MAX_FRAME_SIZE of 2^24": (lambda it: [SettingsFrame(0, {5: 1 << 24})], PROTOCOL),
    "6.6, 8.4: PUSH_PROMISE": (lambda it: [waiting(it), PushPromiseFrame(1, 2, it.encoder.encode(GET), flags=["END_HEADERS"])], PROTOCOL),
    "6.7: PING on a stream": (lambda it: [raw(6, 0, 1, bytes(8))], PROTOCOL),
    "6.7: PING of another length": (lambda it: [raw(6, 0, 0, bytes(6))], FRAME_SIZE),
    "6.8: GOAWAY on a stream": (lambda it: [raw(7, 0, 1, bytes(8))], PROTOCOL),
    "6.8: GOAWAY that is cut short": (lambda it: [raw(7, 0, 0, bytes(7))], FRAME_SIZE),
    "6.9: the window of all widened by nothing": (lambda it: [raw(8, 0, 0, bytes(4))], PROTOCOL),
    "6.9: WINDOW_UPDATE of another length": (lambda it: [raw(8, 0, 0, bytes(3))], FRAME_SIZE),
    "6.9.1: the window of all past 2^31-1": (lambda it: [WindowUpdateFrame(0, (1 << 31) - 1)], FLOW_CONTROL),
    "6.9.2: a new size that makes one too wide": (
        lambda it: [waiting(it), WindowUpdateFrame(1, (1 << 30)), SettingsFrame(0, {4: (1 << 31) - 1})],
        FLOW_CONTROL,
    ),
    "6.10: CONTINUATION without a head": (lambda it: [ContinuationFrame(1, b"", flags=["END_HEADERS"])], PROTOCOL),
    "6.10: CONTINUATION on stream 0": (lambda it: [HeadersFrame(1, b"\x82"), raw(9, 4, 0)], PROTOCOL),
}  # fmt: skip


@pytest.mark.parametrize(("frames", "code"), CONNECTION_ERRORS.values(), ids=CONNECTION_ERRORS)
async def test_an_error_of_the_connection_ends_it(server: Edge, frames: Frames, code: int) -> None:
    peer = await Peer.connect(server.port, greet=False)
    sent = frames(peer)
    peer.send(*(sent if sent[0] == PREFACE else [PREFACE, SettingsFrame(0), *sent]))
    assert (await peer.ends())[1] == code
    await peer.close()


async def test_settings_and_pings_are_acknowledged(server: Edge) -> None:
    peer = await Peer.connect(server.port)
    peer.send(PingFrame(0, b"12345678"), SettingsFrame(0, {4: 1000}), PingFrame(0, bytes(8), flags=["ACK"]))
    await peer.until(lambda: peer.acknowledged == 2 and bool(peer.pongs))
    assert peer.pongs == [b"12345678"]
    assert peer.settings[SettingsFrame.MAX_CONCURRENT_STREAMS] == 100
    assert peer.settings[SettingsFrame.MAX_HEADER_LIST_SIZE] == 65_536
    await peer.close()


async def test_frames_of_a_stream_that_the_server_has_reset_are_ignored(server: Edge) -> None:
    """RFC 9113, 5.1: they may have been sent before the client saw the reset. Their heads count for the table all the same."""
    peer = await Peer.connect(server.port)
    peer.send(waiting(peer), DataFrame(1, b"a"))
    await peer.until(lambda: peer.ended.get(1) == CLOSED)
    peer.send(
        DataFrame(1, b"more"), WindowUpdateFrame(1, 100), RstStreamFrame(1, CANCEL), peer.head(1, [("x-new", "v")], END)
    )
    peer.send(peer.head(3, [*GET, ("x-new", "v")], END))
    assert await peer.answer(3) == (200, b"GET 0")
    await peer.close()


async def test_methods(server: Edge) -> None:
    peer = await Peer.connect(server.port)
    head = peer.ask([(":method", "HEAD"), *GET[1:]])
    assert await peer.answer(head) == (200, b"")
    assert peer.heads[head]["content-length"] == "6"
    assert (await peer.answer(peer.ask([(":method", "OPTIONS"), *get("*")[1:]])))[0] == 200
    assert (await peer.answer(peer.ask([(":method", "CONNECT"), (":authority", "x:1")])))[0] == 405
    waits = peer.head(7, post("/", ("expect", "100-continue"), ("content-length", "1")))
    peer.send(waits)
    await peer.until(lambda: 7 in peer.heads)
    assert peer.heads[7] == {":status": "100"}
    peer.send(DataFrame(7, b"a", flags=[END]))
    assert await peer.answer(7) == (200, b"POST 1")
    await peer.close()
