"""The HTTP client for calls to model servers: answers as RFC 9112 allows them, and some that it does not."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from inference.contract.address import Url
from inference.wires.connect import Address, Connecting
from inference.wires.http.client import HttpClient, NotConnectedError, request_of
from inference.wires.http.response import LostError, NotHttpError, Origin, TooLongError
from tests.support.gateway.black_hole import black_hole
from tests.support.wait import eventually_async

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = request_of("GET", Url("http", "model.test", 80, "/x"), {})


class Server:
    """Gives the answers in turn, one to each request on whichever connection; after the last it closes."""

    def __init__(self) -> None:
        self.answers: list[bytes | Answer] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0)
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()


@pytest.fixture
def client(server: Server) -> HttpClient:
    return HttpClient(here, 5)


async def here(host: str, port: int) -> Sequence[Address]:
    return [(socket.AF_INET, ("127.0.0.1", port))]


async def whole(client: HttpClient, server: Server, most: int = 1 << 20) -> tuple[int, bytes]:
    response = await client.call(Origin("model.test", server.port), REQUEST)
    try:
        return response.status, await response.read_all(most)
    finally:
        response.release()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\nX-Trailer: t\r\n\r\n", b"hi"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
    ],
    ids=["length", "chunks and a trailer", "empty", "after a hint"],
)
async def test_an_answer_is_read_and_its_connection_is_kept(
    client: HttpClient, server: Server, answer: bytes, body: bytes
) -> None:
    server.answers = [answer, answer]
    assert [await whole(client, server), await whole(client, server)] == [(200, body)] * 2
    assert server.connections == 1
    assert b"host: model.test\r\n" in server.requests[0].lower()


async def test_a_body_without_a_length_ends_with_its_connection(client: HttpClient, server: Server) -> None:
    server.answers = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi"]
    assert await whole(client, server) == (200, b"hi")


async def test_a_connection_that_the_server_closes_is_not_kept(client: HttpClient, server: Server) -> None:
    last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    server.answers = [last, last]
    assert [await whole(client, server), await whole(client, server)] == [(200, b"hi")] * 2
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ],
    ids=["length", "chunks"],
)
async def test_a_body_that_breaks_off_is_lost(client: HttpClient, server: Server, answer: bytes) -> None:
    server.answers = [answer]
    with pytest.raises(LostError, match="in the middle of the answer"):
        await whole(client, server)


async def test_a_call_that_needs_a_connection_says_within_which_time_and_hears_of_it(
    client: HttpClient, server: Server
) -> None:
    made: list[None] = []
    connecting = Connecting(5, lambda: made.append(None))
    server.answers = [HI, HI]
    for _ in range(2):
        response = await client.call(Origin("model.test", server.port), REQUEST, connecting)
        assert await response.read_all(9) == b"hi"
        response.release()
    assert len(made) == 1, "the second call had a kept connection"
    with black_hole() as hole:

        async def there(host: str, port: int) -> Sequence[Address]:
            return [(socket.AF_INET, hole)]

        with pytest.raises(NotConnectedError, match="timed out"):
            await HttpClient(there, 600).call(Origin("model.test", 1), REQUEST, Connecting(0.05))


HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the news of a connection's end comes in time."""
    monkeypatch.setattr("inference.wires.http.response.STALE_WITHIN_S", 60.0)


@pytest.mark.usefixtures("patient")
async def test_what_was_sent_on_a_connection_that_had_ended_is_sent_once_more(
    client: HttpClient, server: Server
) -> None:
    server.answers = [HI, leave, HI, leave, leave, HI]
    assert [await whole(client, server), await whole(client, server)] == [(200, b"hi")] * 2
    assert (len(server.requests), server.connections) == (3, 2)
    with pytest.raises(LostError, match="the connection was lost"):
        await whole(client, server)
    assert (len(server.requests), server.connections) == (5, 3), "the third was new, so the server had the request"


async def test_a_kept_connection_that_ends_later_had_the_request(
    client: HttpClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server had time to begin with it, so it is not sent again."""
    monkeypatch.setattr("inference.wires.http.response.STALE_WITHIN_S", 0.0)
    server.answers = [HI, leave, HI]
    await whole(client, server)
    with pytest.raises(LostError) as lost:
        await whole(client, server)
    assert (lost.value.stale, len(server.requests)) == (False, 2)


@pytest.mark.usefixtures("patient")
async def test_where_the_server_is_gone_then_it_may_have_been_the_request(server: Server) -> None:
    addresses = [server.port]

    async def there(host: str, port: int) -> Sequence[Address]:
        return [(socket.AF_INET, ("127.0.0.1", addresses[0]))]

    async def fall(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        addresses[0] = 1  # nothing listens there
        writer.close()

    client = HttpClient(there, 5)
    server.answers = [HI, fall]
    await whole(client, server)
    with pytest.raises(LostError, match="and then: cannot connect"):
        await whole(client, server)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
    ],
    ids=["another protocol", "endless head", "upgrade"],
)
async def test_what_is_not_http_is_said(client: HttpClient, server: Server, answer: bytes) -> None:
    server.answers = [answer]
    with pytest.raises((NotHttpError, LostError)):
        await whole(client, server)


async def test_what_nobody_has_asked_for_ends_the_connection(client: HttpClient, server: Server) -> None:
    twice = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" * 2
    server.answers = [twice, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew"]
    assert await whole(client, server) == (200, b"hi")
    assert await whole(client, server) == (200, b"new")
    assert server.connections == 2


async def test_an_answer_that_is_left_closes_its_connection(client: HttpClient, server: Server) -> None:
    gone = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n")
        assert await reader.read() == b""
        gone.set()

    server.answers = [endless]
    response = await client.call(Origin("model.test", server.port), REQUEST)
    assert await response.read() == b"h"
    response.release()
    async with asyncio.timeout(120):
        await gone.wait()


async def test_a_slow_reader_makes_the_server_wait(client: HttpClient, server: Server) -> None:
    written = 0
    size = 64 << 20

    async def much(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(bytes(1 << 20))
            await writer.drain()
            written += 1 << 20

    server.answers = [much]
    response = await client.call(Origin("model.test", server.port), REQUEST)
    before = -1
    while before != written:  # until it is at rest
        before = written
        await asyncio.sleep(0.05)
    assert written < size
    assert len(await response.read_all(size)) == size
    response.release()


async def test_more_than_is_wanted_is_not_read(client: HttpClient, server: Server) -> None:
    server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + bytes(20)]
    with pytest.raises(TooLongError, match="longer than 10 bytes"):
        await whole(client, server, most=10)


async def test_the_next_address_of_a_name_is_tried(server: Server) -> None:
    async def several(host: str, port: int) -> Sequence[Address]:
        return [(socket.AF_INET, ("127.0.0.2", 1)), (socket.AF_INET, ("127.0.0.1", port))]

    server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"]
    assert await whole(HttpClient(several, 5), server) == (200, b"hi")


async def test_a_server_that_is_away_is_not_connected_to(client: HttpClient) -> None:
    with pytest.raises(NotConnectedError, match="cannot connect"):
        await client.call(Origin("model.test", 1), REQUEST)


async def test_idle_connections_are_closed(client: HttpClient, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.wires.http.client.KEPT_S", 0.01)
    gone = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert await reader.read() == b""
        gone.set()

    server.answers = [watch]
    await whole(client, server)
    async with asyncio.timeout(120):
        await gone.wait()
    await eventually_async(lambda: not client.kept)


def test_a_header_cannot_carry_a_second_one() -> None:
    with pytest.raises(ValueError, match="the value of Authorization has a line end"):
        request_of("GET", Url("http", "a", 80, "/"), {"Authorization": "Bearer x\r\nX: y"})


@pytest.mark.parametrize(
    ("url", "host"),
    [
        (Url("http", "a", 80, "/"), "a"),
        (Url("https", "a", 443, "/"), "a"),
        (Url("https", "a", 80, "/"), "a:80"),
        (Url("http", "::1", 8000, "/"), "[::1]:8000"),
    ],
)
def test_the_host_is_as_a_server_expects_it(url: Url, host: str) -> None:
    assert f"\r\nHost: {host}\r\n".encode() in request_of("GET", url, {})
