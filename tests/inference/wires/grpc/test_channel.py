"""What a channel does beyond calls: TLS, pings that keep a connection honest, and names that move."""

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from inference.wires.grpc import Call, Channel, GrpcError, Keepalive, Status, Tls, UnreachableError
from inference.wires.grpc import channel as channel_module
from inference.wires.grpc import http2 as h2
from inference.wires.grpc.connection import Connection
from inference.wires.grpc.keepalive import Watch
from tests.support.certificates import Certificate, certificate
from tests.support.grpc.interop import TestService

EMPTY = b"/grpc.testing.TestService/EmptyCall"
DUPLEX = b"/grpc.testing.TestService/FullDuplexCall"


@pytest.fixture(scope="module")
def proof() -> Certificate:
    return certificate("triton.example")


@pytest.fixture
async def secured(proof: Certificate) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((TestService(),))
    credentials = grpc.ssl_server_credentials([(proof.key, proof.chain)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_calls_go_over_tls(secured: str, proof: Certificate, tmp_path: Path) -> None:
    channel = Channel(secured, 10, Tls(str(proof.write(tmp_path)), "triton.example"))
    assert await channel.unary(EMPTY, b"", 10) == b""
    channel.close()


@pytest.mark.parametrize(("authority", "name"), [("", "triton.example"), ("own", "other.example"), ("own", "")])
async def test_a_server_that_does_not_prove_who_it_is_gets_no_call(
    secured: str, proof: Certificate, tmp_path: Path, authority: str, name: str
) -> None:
    """Of an authority that is not known, or with another name than the channel's; without one the address's host counts."""
    channel = Channel(secured, 10, Tls(authority and str(proof.write(tmp_path)), name))
    with pytest.raises(UnreachableError, match=r"(?i)certificate"):
        await channel.call(EMPTY, b"")
    channel.close()


async def test_a_missing_file_of_authorities_is_named(secured: str, tmp_path: Path) -> None:
    channel = Channel(secured, 10, Tls(str(tmp_path / "none.pem")))
    with pytest.raises(UnreachableError, match="No such file"):
        await channel.call(EMPTY, b"")


async def test_a_tls_server_without_http2_is_named(proof: Certificate, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(proof.key)
    chain = proof.write(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    channel = Channel(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", 10, Tls(str(chain), "triton.example"))
    with pytest.raises(UnreachableError, match="ALPN"):
        await channel.call(EMPTY, b"")
    server.close()


class SilentServer:
    """Answers settings and, unless `dead`, pings; it never answers a call."""

    def __init__(self, *, dead: bool = False) -> None:
        self.dead = dead
        self.pinged_twice = asyncio.Event()
        self._pings = 0
        self.target = ""
        self.goaway = False

    async def __aenter__(self) -> "SilentServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.target = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(EOFError, ConnectionError):  # the channel may leave at any moment
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(h2.PREFACE))
        writer.write(h2.settings([]))
        while head := await reader.read(h2.HEAD_BYTES):
            size, kind, flags, _ = h2.parse_head(head, 0)
            payload = await reader.readexactly(size)
            if kind == h2.PING and not flags & h2.ACK:
                self._pings += 1
                if self._pings == 2:
                    self.pinged_twice.set()
                if self.goaway:
                    calm = bytes(4) + h2.ENHANCE_YOUR_CALM.to_bytes(4, "big") + b"too_many_pings"
                    writer.write(h2.frame(h2.GOAWAY, 0, 0, calm))
                elif not self.dead:
                    writer.write(h2.frame(h2.PING, h2.ACK, 0, payload))


async def failure_of(call: Call) -> GrpcError | UnreachableError:
    with pytest.raises((GrpcError, UnreachableError)) as caught:
        async with asyncio.timeout(120):
            await call.read()
    return caught.value


def test_a_channel_that_is_closed_while_it_connects_leaves_nothing_behind() -> None:
    """Whichever turn of the event loop that is in: nothing is written to what is closed, and no timer goes on."""
    failures: list[str] = []

    async def closed_after(turns: int, target: str) -> int:
        channel = Channel(target, 10)
        call = asyncio.create_task(channel.call(DUPLEX, b""))
        for _ in range(turns):
            await asyncio.sleep(0)
        made = not call.cancel()
        channel.close()
        channel.disconnect()
        await asyncio.wait([call])
        return made

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["message"]))
        async with SilentServer() as server:
            made: list[int] = []
            while len(made) < 60 or not any(made):  # on a busy machine it takes more turns to connect
                made.append(await closed_after(len(made), server.target))
        assert not all(made)
        async with asyncio.timeout(120):
            while [found for found in gc.get_objects() if isinstance(found, Connection)]:
                await asyncio.sleep(0)
                gc.collect()

    uvloop.run(run())
    assert not failures


async def test_a_connection_whose_pings_are_not_answered_is_given_up() -> None:
    async with SilentServer(dead=True) as server:
        channel = Channel(server.target, 10, keepalive=Keepalive(0.05, 0.05))
        error = await failure_of(await channel.call(DUPLEX, b""))
        assert isinstance(error, UnreachableError)
        assert "no answer to a ping" in error.message
        channel.close()


async def test_a_silent_server_that_answers_pings_keeps_its_calls() -> None:
    async with SilentServer() as server:
        channel = Channel(server.target, 10, keepalive=Keepalive(0.02, 2))
        call = await channel.call(DUPLEX, b"")
        async with asyncio.timeout(120):
            await server.pinged_twice.wait()  # after an unanswered one there is no second
        assert not call.closed
        call.cancel()
        channel.close()


async def test_a_server_that_finds_pings_too_many_gets_fewer() -> None:
    """It closes the connection; gRPC's rule is to double the time."""
    keepalive = Keepalive(0.02, 5)
    async with SilentServer() as server:
        server.goaway = True
        channel = Channel(server.target, 10, keepalive=keepalive)
        await failure_of(await channel.call(DUPLEX, b""))
        assert keepalive.time_s == 0.04
        channel.close()


class Clock:
    """An event loop's timer, moved by hand, and a connection with `calls` in flight whose server sends nothing of its own."""

    def __init__(self, calls: int) -> None:
        self.loop: Any = self
        self.calls = calls
        self.arrivals = self.answers = 0
        self.now_s = 0.0
        self.pinged_at_s: list[float] = []
        self.aborted_at_s = 0.0
        self.answering = True
        self._due: tuple[float, Any] = (0.0, None)

    def call_later(self, delay_s: float, function: Any) -> Any:
        self._due = (self.now_s + delay_s, function)
        return None

    def run(self, until_s: float) -> None:
        while self._due[0] <= until_s and not self.aborted_at_s:
            self.now_s = self._due[0]
            self._due[1]()
        self.now_s = until_s

    def ping(self) -> None:
        self.pinged_at_s.append(self.now_s)
        self.arrivals += self.answering

    def abort(self, _: str) -> None:
        self.aborted_at_s = self.now_s


def test_no_ping_is_sent_while_no_call_is_in_flight() -> None:
    """Servers count those as abuse (gRPC's doc/keepalive.md)."""
    clock = Clock(calls=0)
    Watch(clock, Keepalive())  # type: ignore[arg-type]
    clock.run(3600)
    assert (clock.pinged_at_s, clock.aborted_at_s) == ([], 0)


def test_pings_become_rare_while_an_answer_is_awaited_and_frequent_after_a_part_of_it() -> None:
    clock = Clock(calls=1)
    Watch(clock, Keepalive(30, 20))  # type: ignore[arg-type]
    clock.run(1000)
    assert clock.pinged_at_s[:2] == [30, 80]
    assert all(later - earlier >= 300 for earlier, later in pairwise(clock.pinged_at_s[1:]))
    before = len(clock.pinged_at_s)
    clock.answers += 1
    clock.arrivals += 1
    clock.run(2000)
    assert clock.pinged_at_s[before + 1] - clock.pinged_at_s[before] <= 50


def test_an_unanswered_ping_ends_the_connection_after_the_timeout() -> None:
    clock = Clock(calls=1)
    clock.answering = False
    Watch(clock, Keepalive(30, 20))  # type: ignore[arg-type]
    clock.run(1000)
    assert (clock.pinged_at_s, clock.aborted_at_s) == ([30], 50)


class Names:
    """What a name stands for, instead of the system's resolver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        self.addresses = addresses
        self.looked_up = 0
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self._resolve, raising=False)

    async def _resolve(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        if host[0].isdigit():
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
        self.looked_up += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


@pytest.fixture
async def everywhere() -> AsyncIterator[int]:
    """A port on which 127.0.0.2 and 127.0.0.3 have a server each."""
    servers = []
    port = 0
    for address in ("127.0.0.2", "127.0.0.3"):
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((TestService(),))
        port = server.add_insecure_port(f"{address}:{port}")
        await server.start()
        servers.append(server)
    yield port
    for server in servers:
        await server.stop(None)


async def test_new_calls_follow_a_name_that_moves_and_old_ones_end_where_they_are(
    everywhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "_RESOLVE_S", 0.0)
    names = Names(monkeypatch, "127.0.0.2")
    channel = Channel(f"triton.example:{everywhere}", 10)
    old = await channel.call(DUPLEX, None)
    assert channel.peer == "127.0.0.2"
    names.addresses = ("127.0.0.3",)
    async with asyncio.timeout(120):
        while channel.peer == "127.0.0.2":
            await channel.unary(EMPTY, b"", 10)
    assert channel.peer == "127.0.0.3"
    old.finish()
    assert await old.read() is None
    channel.close()


async def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    everywhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(monkeypatch, "127.0.0.9", "127.0.0.3")
    channel = Channel(f"triton.example:{everywhere}", 10)
    assert await channel.unary(EMPTY, b"", 10) == b""
    assert (names.looked_up, channel.peer) == (1, "127.0.0.3")
    channel.close()


@pytest.mark.parametrize(
    ("http_status", "status"),
    [(b"401", Status.UNAUTHENTICATED), (b"404", Status.UNIMPLEMENTED), (b"503", Status.UNAVAILABLE)],
)
async def test_an_answer_of_something_else_than_a_grpc_server_has_the_published_status(
    http_status: bytes, status: Status
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(h2.PREFACE))
        writer.write(h2.settings([]))
        while head := await reader.read(h2.HEAD_BYTES):
            size, kind, _, stream = h2.parse_head(head, 0)
            await reader.readexactly(size)
            if kind == h2.HEADERS:
                block = h2.literal(b":status", http_status) + h2.literal(b"content-type", b"text/html")
                writer.write(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, stream, block))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    channel = Channel(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", 10)
    assert (await failure_of(await channel.call(EMPTY, b""))).status is status
    channel.close()
    server.close()
