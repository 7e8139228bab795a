"""The HTTP/2 server of grpc/doc/http2-interop-test-descriptions.md: it does to UnaryCall what its `case` says."""

import asyncio
from contextlib import suppress

from inference.wires.grpc import http2 as h2
from tests.support.grpc.interop import MESSAGES

SIZE = 314_159
PINGS = 3  # of the case "ping": around the headers, and after the data
_ANSWER = h2.message(MESSAGES["SimpleResponse"](payload={"body": bytes(SIZE)}).SerializeToString())
_HEADERS = h2.literal(b":status", b"200") + h2.literal(b"content-type", b"application/grpc")
_OK = h2.literal(b"grpc-status", b"0")


class Http2Server:
    """Counts connections and the most calls at once. `all_answered` is set once the last of the pings was answered."""

    def __init__(self, case: str) -> None:
        self.case = case
        self.target = ""
        self.connections = self.most_at_once = self.answered = 0
        self.all_answered = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Http2Server":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.target = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await _Peer(self, reader, writer).serve()


class _Peer:
    """One connection."""

    def __init__(self, server: Http2Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._windows: dict[int, int] = {}  # 0 is the connection's
        self._initial = h2.DEFAULT_WINDOW
        self._more = asyncio.Event()
        self._open: set[int] = set()
        self._answers: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        await self._reader.readexactly(len(h2.PREFACE))
        self._windows[0] = h2.DEFAULT_WINDOW
        limit = [(h2.MAX_CONCURRENT_STREAMS, 1)] if self._server.case == "max_streams" else []
        self._writer.write(h2.settings(limit))
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size, kind, flags, stream = h2.parse_head(await self._reader.readexactly(h2.HEAD_BYTES), 0)
                self._frame(kind, flags, stream, await self._reader.readexactly(size))
        for task in self._answers:
            task.cancel()
        self._writer.close()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == h2.SETTINGS and not flags & h2.ACK:
            self._initial = dict(h2.parse_settings(payload)).get(h2.INITIAL_WINDOW_SIZE, self._initial)
            self._writer.write(h2.frame(h2.SETTINGS, h2.ACK, 0))
        elif kind == h2.WINDOW_UPDATE:
            self._windows[stream] = self._windows.get(stream, self._initial) + h2.u32(payload)
            self._more.set()
        elif kind == h2.PING and flags & h2.ACK:
            self._server.answered += 1
            if self._server.answered == PINGS:
                self._server.all_answered.set()
        elif kind == h2.HEADERS:
            self._open.add(stream)
            self._server.most_at_once = max(self._server.most_at_once, len(self._open))
        elif kind == h2.DATA:
            self._writer.write(h2.window_update(0, len(payload)) + h2.window_update(stream, len(payload)))
            if flags & h2.END_STREAM:
                task = asyncio.ensure_future(self._answer(stream))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)

    async def _answer(self, stream: int) -> None:
        case = self._server.case
        if case == "goaway":
            self._writer.write(h2.frame(h2.GOAWAY, 0, 0, stream.to_bytes(4, "big") + bytes(4)))
        self._ping()
        self._writer.write(h2.frame(h2.HEADERS, h2.END_HEADERS, stream, _HEADERS))
        self._ping()
        if case != "rst_after_header":
            await self._data(stream, _ANSWER[: SIZE // 2] if case == "rst_during_data" else _ANSWER)
            self._ping()
        self._open.discard(stream)
        if case.startswith("rst"):
            self._writer.write(h2.reset(stream, h2.NO_ERROR))
        else:
            self._writer.write(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, stream, _OK))

    async def _data(self, stream: int, data: bytes) -> None:
        small = self._server.case in ("data_frame_padding", "no_df_padding_sanity_test")
        size, padding = (5, bytes(255)) if small else (h2.DEFAULT_MAX_FRAME, b"")
        padded = self._server.case == "data_frame_padding"
        for at in range(0, len(data), size):
            part = data[at : at + size]
            payload = b"\xff" + part + padding if padded else part
            while min(self._windows[0], self._windows.setdefault(stream, self._initial)) < len(payload):
                self._more.clear()
                await self._more.wait()
            self._windows[0] -= len(payload)
            self._windows[stream] -= len(payload)
            self._writer.write(h2.frame(h2.DATA, h2.PADDED if padded else 0, stream, payload))

    def _ping(self) -> None:
        if self._server.case == "ping":
            self._writer.write(h2.frame(h2.PING, 0, 0, bytes(8)))
