"""Just enough HTTP/2 for a gRPC server that answers at once: frames, windows, and headers without a dynamic table.

Why not grpcio's own server: its CPU per stream would take more of a shared core than what is being measured.
The header table size is announced as 0, so a client spells every header out and its method is found by looking at the
bytes (RFC 7541 §6.2; gRPC's C core, under python and C++ clients, gives ordinary headers no Huffman codes).
"""

import asyncio
import struct
from collections.abc import Callable
from typing import cast

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_TABLE_SIZE, _INITIAL_WINDOW_SIZE = 1, 4
_DEFAULT_WINDOW = 65_535
_MAX_WINDOW = 2**31 - 1
_MAX_FRAME = 16_384
_TOP_UP = 2**28


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload) << 8 | kind) + struct.pack(">BI", flags, stream) + payload


def header(name: str, value: str) -> bytes:
    """A literal header that enters no table, uncompressed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def message(body: bytes) -> bytes:
    """gRPC's length-prefixed message, not compressed."""
    return b"\0" + len(body).to_bytes(4, "big") + body


OPENING = (
    frame(SETTINGS, 0, 0, struct.pack(">HIHI", _HEADER_TABLE_SIZE, 0, _INITIAL_WINDOW_SIZE, _MAX_WINDOW))
    + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _MAX_WINDOW - _DEFAULT_WINDOW))
)  # fmt: skip
_STATUS_OK = b"\x88" + header("content-type", "application/grpc")
TRAILERS = header("grpc-status", "0")
_UNIMPLEMENTED = _STATUS_OK + header("grpc-status", "12") + header("grpc-message", "the stand-in does not answer this")

Answer = Callable[[bytes], bytes]
"""From one request message to the length-prefixed messages that answer it, of which there may be none."""


class _Stream:
    __slots__ = ("answer", "answered", "buffer", "half_closed", "window")

    def __init__(self, answer: Answer, window: int) -> None:
        self.answer = answer
        self.answered = False
        self.buffer = b""
        self.half_closed = False
        self.window = window


class GrpcConnection(asyncio.Protocol):
    """One client's connection. `route` finds the method's answer in an uncompressed header block, or None."""

    def __init__(self, route: Callable[[bytes], Answer | None]) -> None:
        self._route = route
        self._transport: asyncio.Transport
        self._input = b""
        self._preface_seen = False
        self._streams: dict[int, _Stream] = {}
        self._window = _DEFAULT_WINDOW
        self._initial_window = _DEFAULT_WINDOW
        self._received = 0
        self._held: dict[int, bytes] = {}  # answers waiting for the client to widen a window
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only
        self._transport.write(OPENING)

    def data_received(self, data: bytes) -> None:
        buffer = self._input + data if self._input else data
        at = 0
        if not self._preface_seen:
            if len(buffer) < len(PREFACE):
                self._input = buffer
                return
            if not buffer.startswith(PREFACE):
                self._transport.abort()
                return
            self._preface_seen = True
            at = len(PREFACE)
        size = len(buffer)
        while size - at >= 9:
            length = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
            end = at + 9 + length
            if end > size:
                break
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            self._frame(buffer[at + 3], buffer[at + 4], stream, buffer[at + 9 : end])
            at = end
        self._input = buffer[at:]
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == HEADERS:
            answer = self._route(payload)
            if answer is None:
                self._out.append(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, _UNIMPLEMENTED))
                return
            self._streams[stream_id] = _Stream(answer, self._initial_window)
            if flags & END_STREAM:
                self._half_close(stream_id)
        elif kind == DATA:
            self._data(flags, stream_id, payload)
        elif kind == WINDOW_UPDATE:
            self._widen(stream_id, int.from_bytes(payload, "big"))
        elif kind == PING and not flags & ACK:
            self._out.append(frame(PING, ACK, 0, payload))
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
            self._out.append(frame(SETTINGS, ACK, 0))
        elif kind == RST_STREAM:
            self._streams.pop(stream_id, None)
            self._held.pop(stream_id, None)
        elif kind == CONTINUATION:
            self._transport.abort()  # headers beyond 16 KiB are not what this measures

    def _settings(self, payload: bytes) -> None:
        for key, value in struct.iter_unpack(">HI", payload):
            if key == _INITIAL_WINDOW_SIZE:
                for stream in self._streams.values():
                    stream.window += value - self._initial_window
                self._initial_window = value

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received >= _TOP_UP:
            self._out.append(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self._received)))
            self._received = 0
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        buffer = stream.buffer + payload if stream.buffer else payload
        while len(buffer) >= 5 and len(buffer) >= 5 + (size := int.from_bytes(buffer[1:5], "big")):
            self._send(stream_id, stream, stream.answer(buffer[5 : 5 + size]))
            buffer = buffer[5 + size :]
        stream.buffer = buffer
        if flags & END_STREAM:
            self._half_close(stream_id)

    def _half_close(self, stream_id: int) -> None:
        stream = self._streams[stream_id]
        stream.half_closed = True
        self._finish(stream_id, stream)

    def _send(self, stream_id: int, stream: _Stream, messages: bytes) -> None:
        if not stream.answered:
            stream.answered = True
            self._out.append(frame(HEADERS, END_HEADERS, stream_id, _STATUS_OK))
        if held := self._held.pop(stream_id, b""):
            messages = held + messages
        room = min(stream.window, self._window)
        now, later = messages[:room] if room < len(messages) else messages, messages[max(room, 0) :]
        stream.window -= len(now)
        self._window -= len(now)
        for at in range(0, len(now), _MAX_FRAME):
            self._out.append(frame(DATA, 0, stream_id, now[at : at + _MAX_FRAME]))
        if later:
            self._held[stream_id] = later

    def _finish(self, stream_id: int, stream: _Stream) -> None:
        if stream.half_closed and stream_id not in self._held:
            if not stream.answered:
                self._out.append(frame(HEADERS, END_HEADERS, stream_id, _STATUS_OK))
            self._out.append(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, TRAILERS))
            del self._streams[stream_id]

    def _widen(self, stream_id: int, by: int) -> None:
        if stream_id == 0:
            self._window += by
        elif stream := self._streams.get(stream_id):
            stream.window += by
        for held_id in list(self._held):
            stream = self._streams[held_id]
            self._send(held_id, stream, b"")
            self._finish(held_id, stream)
