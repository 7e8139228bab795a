"""HTTP/2 over a bare socket, with frames by hyperframe and heads by hpack, and the gateway's server with a small application."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from deploy.local.ports import LOOPBACK
from inference.core.openai import errors
from inference.wires.http.exchange import JSON, EdgeCounts, Exchange, Request
from inference.wires.http.server import Server
from inference.wires.http.tls import Certificate

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET = ((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x"))
POST = ((":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x"))
KEY = ("authorization", "Bearer known")
PATIENCE_S = 20


def get(path: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, path if name == ":path" else value) for name, value in GET)


def post(path: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (*((name, path if name == ":path" else value) for name, value in POST), *more)


class Peer:
    """A client that sends what it is given, and reads frames strictly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.encoder = Encoder()
        self._decoder = Decoder()
        self._next = 1
        self.heads: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.settings: dict[int, int] = {}
        self.ended: dict[int, int | None] = {}  # streams with how they ended: None by END_STREAM, else the reset's code
        self.goaways: list[tuple[int, int]] = []  # (last stream, code)
        self.pongs: list[bytes] = []
        self.windows: dict[int, int] = {}  # by how much the server has widened them
        self.acknowledged = 0
        self.closed = False

    @classmethod
    async def connect(
        cls, port: int, context: ssl.SSLContext | None = None, *, greet: bool = True, **settings: int
    ) -> Self:
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
        peer = cls(reader, writer)
        if greet:
            given = {getattr(SettingsFrame, name.upper()): value for name, value in settings.items()}
            peer.send(PREFACE, SettingsFrame(0, given))
        return peer

    async def close(self) -> None:
        self.writer.close()

    def send(self, *frames: Frame | bytes) -> None:
        self.writer.write(b"".join(it if isinstance(it, bytes) else it.serialize() for it in frames))

    def head(self, stream: int, fields: Any, *flags: str) -> HeadersFrame:
        return HeadersFrame(stream, self.encoder.encode(fields), flags=["END_HEADERS", *flags])

    def ask(self, fields: Any, body: bytes = b"") -> int:
        """Send a request, whole. Returns its stream."""
        stream, self._next = self._next, self._next + 2
        self.send(self.head(stream, fields, *(() if body else ("END_STREAM",))))
        if body:
            self.send(DataFrame(stream, body, flags=["END_STREAM"]))
        return stream

    async def answer(self, stream: int) -> tuple[int, bytes]:
        """The answer to a request, once it is whole."""
        await self.until(lambda: stream in self.ended)
        assert self.ended[stream] is None, f"reset with {self.ended[stream]}"
        return int(self.heads[stream][":status"]), self.bodies.get(stream, b"")

    async def until(self, held: Callable[[], bool]) -> None:
        """Read frames until this holds. Fails when the server closes before."""
        async with asyncio.timeout(PATIENCE_S):
            while not held():
                assert await self.read(), "closed"

    async def ends(self) -> tuple[int, int]:
        """The last GOAWAY, once the server has closed."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.read():
                pass
        return self.goaways[-1]

    async def read(self) -> bool:
        """One frame. Returns False at the end."""
        try:
            raw = await self._reader.readexactly(9)
            frame, length = Frame.parse_frame_header(memoryview(raw))
            assert length <= 16_384
            frame.parse_body(memoryview(await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed = True
            return False
        if isinstance(frame, SettingsFrame):
            if "ACK" in frame.flags:
                self.acknowledged += 1
            else:
                self.settings = dict(frame.settings)
                self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" in frame.flags:
            self.pongs.append(bytes(frame.opaque_data))
        elif isinstance(frame, GoAwayFrame):
            self.goaways.append((frame.last_stream_id, frame.error_code))
        elif isinstance(frame, WindowUpdateFrame):
            self.windows[frame.stream_id] = self.windows.get(frame.stream_id, 0) + frame.window_increment
        else:
            self._of_a_stream(frame)
        return True

    def _of_a_stream(self, frame: Frame) -> None:
        stream = frame.stream_id
        if isinstance(frame, RstStreamFrame):
            self.ended[stream] = frame.error_code
            return
        assert stream not in self.ended, f"{frame} after the end"
        if isinstance(frame, HeadersFrame):
            assert "END_HEADERS" in frame.flags
            self.heads[stream] = dict(self._decoder.decode(frame.data))  # type: ignore[arg-type]
        else:
            assert isinstance(frame, DataFrame), frame
            self.bodies[stream] = self.bodies.get(stream, b"") + bytes(frame.data)
        if "END_STREAM" in frame.flags:
            self.ended[stream] = None


class Application:
    """What the server serves here. It counts requests that begin, and that are cancelled."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.written_bytes = 0

    async def __call__(self, request: Request, out: Exchange) -> None:
        self.begun.append(request.path)
        try:
            await self._answer(request, out)
        except asyncio.CancelledError:
            self.cancelled.append(request.path)
            raise

    async def _answer(self, request: Request, out: Exchange) -> None:
        path = request.path
        if path == "/wait":
            await asyncio.Event().wait()
        elif path == "/stream":  # 64 KiB at a time, for ever
            out.start_stream([JSON])
            while True:
                out.write(bytes(1 << 16))
                self.written_bytes += 1 << 16
                if out.blocked:
                    await out.drained(PATIENCE_S)
                await asyncio.sleep(0)
        elif path.startswith("/bytes/"):
            out.respond(200, [JSON], bytes(int(path.removeprefix("/bytes/"))))
        elif path == "/fails":
            raise RuntimeError("as a bug would")
        else:
            out.respond(
                200, [JSON, (b"x-peer", out.peer.encode())], b"%s %d" % (request.method.encode(), len(request.body))
            )

    @staticmethod
    def admit(headers: dict[bytes, bytes]) -> None:
        if headers.get(b"authorization") != KEY[1].encode():
            raise errors.wrong_key()


class Edge(Server):
    """The gateway's server with that application."""

    def __init__(self, application: Application, **options: Any) -> None:
        given = {
            "max_body_bytes": 1 << 20,
            "max_connections": 64,
            "max_buffered_bytes": 64 << 20,
            "read_timeout_s": 30,
            "write_timeout_s": 30,
            "idle_timeout_s": 75,
            "counts": EdgeCounts(),
            **options,
        }
        super().__init__(application, application.admit, **given)
        self.application = application
        self.port = 0


@asynccontextmanager
async def edge(certificate: Certificate | None = None, **options: Any) -> AsyncIterator[Edge]:
    server = Edge(Application(), certificate=certificate, **options)
    server.port = await server.start(LOOPBACK, 0)
    try:
        yield server
    finally:
        hurry = asyncio.Event()
        hurry.set()
        await server.close(0, 0, hurry)
