"""One client's connection over HTTP/2 (RFC 9113), which `connection` hands over: its streams, and what bounds them.

An error of one request ends its stream, and one of the connection all of it.
"""

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

import structlog

from inference.core import http2 as h2
from inference.core.http2_heads import Fields, check_settings, check_trailers, read_request, status_field
from inference.core.openai import errors
from inference.wires.http.exchange import JSON, Request
from inference.wires.http.frames import FrameReader
from inference.wires.http.inflow import MAX_STREAMS, SMALL_BODY_BYTES, Inflow
from inference.wires.http.outflow import Outflow
from inference.wires.http.patience import IdleFrames, SignsOfLife
from inference.wires.http.served import Served
from inference.wires.http.stream import Stream

if TYPE_CHECKING:
    from inference.wires.http.server import Server

_log = structlog.get_logger()
_TINY_UPDATE_BYTES = 64


class Http2Connection(Served):
    """Serves requests side by side, each a `Stream`."""

    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self._streams: dict[int, Stream] = {}
        self._last = 0  # the newest stream
        self._reset_here: deque[int] = deque(maxlen=MAX_STREAMS)  # frames of these may be under way still
        self._reader = FrameReader(self._on_frame, self._on_head)
        self._idle = IdleFrames()
        self._out = Outflow(self._send, self._answered)
        self._blocked_bytes = 0  # counted as held while the client reads too slowly
        self._paused = False
        self._in = Inflow(self._out.write, server.max_body_bytes)
        self._partial_bytes = 0  # held of a frame or a head under way
        self._since_s = time.monotonic()
        self._said_leaving = False
        self._ending = False  # no more streams; it ends with the last one
        self._silence = SignsOfLife()

    # asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._send(self._in.opening())
        self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.hold(-self.held_bytes)
        self._server.hold(-self._blocked_bytes)
        self._blocked_bytes = 0
        self._transport = None
        self._server.lost(self)
        for stream in list(self._streams.values()):
            self._drop(stream, cancel=True)

    def pause_writing(self) -> None:
        self._out.set_writable(False)
        self._blocked_bytes = self.unread_bytes
        self._server.hold(self._blocked_bytes)
        self._pace(reads=self._discarding)

    def resume_writing(self) -> None:
        self._server.hold(-self._blocked_bytes)
        self._blocked_bytes = 0
        self._pace(reads=True)
        self._out.set_writable(True)

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            self._discard(data)
            return
        self._silence.heard = True
        self._out.begin_batch()
        try:
            self._reader.feed(data)
        except h2.ProtocolError as error:
            self._fail(error)
        except Exception:  # noqa: BLE001  (a bug, whatever it is)
            _log.exception("edge.failed")
            self._fail(h2.ProtocolError("an error of the gateway", h2.INTERNAL_ERROR))
        finally:
            self._out.end_batch()
        if more := self._reader.kept_bytes - self._partial_bytes:
            self._partial_bytes += more
            self.hold(more)
        if self._ending or self._server.closing:
            self._settle()

    # Frames ---------------------------------------------------------------------------------------

    def _on_frame(self, kind: int, flags: int, identity: int, payload: bytes) -> None:
        if kind == h2.DATA:
            self._on_data(flags, identity, payload)
        elif kind == h2.WINDOW_UPDATE:
            self._on_window(identity, h2.u32(payload) & h2.MAX_WINDOW)
        elif kind == h2.SETTINGS:
            self._on_settings(flags, payload)
        elif kind == h2.GOAWAY:
            self._ending = True
        else:
            self._idle.add()
            if kind == h2.PING and not flags & h2.ACK:
                self._out.write(h2.frame(h2.PING, h2.ACK, 0, payload))
            elif kind == h2.RST_STREAM:
                if identity in self._streams:
                    self._drop(self._streams[identity], cancel=True)
                else:
                    self._check_not_idle(identity)

    def _check_not_idle(self, identity: int) -> None:
        if (identity > self._last and not self._ending) or not identity % 2:
            raise h2.ProtocolError(f"stream {identity} has not begun")

    def _on_settings(self, flags: int, payload: bytes) -> None:
        self._idle.add()
        if flags & h2.ACK:
            return
        for key, value in check_settings(payload):
            if key == h2.INITIAL_WINDOW_SIZE:
                more = self._out.begin_with(value)
                if not all(self._out.widen(stream, more) for stream in self._streams.values()):
                    raise h2.ProtocolError(f"INITIAL_WINDOW_SIZE of {value} is too much", h2.FLOW_CONTROL_ERROR)
        self._out.write(h2.frame(h2.SETTINGS, h2.ACK, 0))
        self._out.pump()

    def _on_window(self, identity: int, more: int) -> None:
        if more < _TINY_UPDATE_BYTES:
            self._idle.add()
        stream = self._streams.get(identity)
        if not identity:
            if not more or not self._out.widen_all(more):
                code = h2.FLOW_CONTROL_ERROR if more else h2.PROTOCOL_ERROR
                raise h2.ProtocolError(f"the window is widened by {more}", code)
        elif stream is None:
            self._check_not_idle(identity)
        elif not more:
            self.reset(stream, h2.PROTOCOL_ERROR)
        elif not self._out.widen(stream, more):
            self.reset(stream, h2.FLOW_CONTROL_ERROR)
        self._out.pump()

    def _on_head(self, identity: int, ends: bool, fields: Fields) -> None:
        stream = self._streams.get(identity)
        if stream is not None:
            self._on_trailers(stream, ends, fields)
        elif identity <= self._last:
            if identity not in self._reset_here:
                raise h2.ProtocolError(f"stream {identity} is closed", h2.STREAM_CLOSED)
        elif not identity % 2:
            raise h2.ProtocolError(f"stream {identity} is not a client's")
        elif not self._ending:
            self._begin(identity, ends, fields)

    # Requests -------------------------------------------------------------------------------------

    def _begin(self, identity: int, ends: bool, fields: Fields) -> None:
        self._last = identity
        self._since_s = time.monotonic()
        if len(self._streams) >= MAX_STREAMS:
            self._idle.add()
            self._reset_here.append(identity)
            self._out.write(h2.reset(identity, h2.REFUSED_STREAM))
            return
        if self._streams and self._server.draining:
            self._say_leaving()  # or there might be streams for ever
        stream = self._streams[identity] = Stream(self, self._out, identity, self._since_s)
        stream.complete = ends
        try:
            head = read_request(fields)
            stream.begin(head)
            if ends:
                self._complete(stream)
                return
            if head.length > self._server.max_body_bytes:
                raise errors.body_too_large(self._server.max_body_bytes)
            if head.length > SMALL_BODY_BYTES:
                self._upload(stream)
            if head.headers.get(b"expect", b"").lower() == b"100-continue":
                self._out.write(self._out.head(stream, status_field(100), end=False))
        except errors.ApiError as error:
            self._refuse(stream, error)

    def _on_data(self, flags: int, identity: int, payload: bytes) -> None:
        size = len(payload)
        self._in.received(size)
        data = h2.unpad(flags & h2.PADDED, payload)
        stream = self._streams.get(identity)
        if stream is None:
            self._check_not_idle(identity)
            if identity not in self._reset_here and not self._ending:
                raise h2.ProtocolError(f"data on stream {identity}, which is closed", h2.STREAM_CLOSED)
            return
        ends = bool(flags & h2.END_STREAM)
        if stream.complete:
            self.reset(stream, h2.STREAM_CLOSED)
            return
        if stream.refused:
            self._ignore(stream, ends)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            self.reset(stream, h2.FLOW_CONTROL_ERROR)
            return
        if not data and not ends:
            self._idle.add()
        try:
            self._on_body(stream, data, ends)
        except errors.ApiError as error:
            self._refuse(stream, error)

    def _on_body(self, stream: Stream, data: bytes, ends: bool) -> None:
        """Raises ApiError."""
        stream.take(data, ends, self._server.max_body_bytes)
        if ends:
            self._complete(stream)
        elif self._in.is_short(stream):
            self._upload(stream)

    def _upload(self, stream: Stream) -> None:
        """Let the client send the whole of a large body, a few at a time. Raises ApiError where it has no known key."""
        self._server.admit(stream.head.headers)
        self.known = True
        self._in.add(stream)

    def _on_trailers(self, stream: Stream, ends: bool, fields: Fields) -> None:
        if stream.complete:
            self.reset(stream, h2.STREAM_CLOSED)
            return
        if stream.refused:
            self._ignore(stream, ends)
            return
        try:
            if not ends:
                raise errors.invalid("A second head does not end the request.", code="bad_request")
            check_trailers(fields)
            self._on_body(stream, b"", True)
        except errors.ApiError as error:
            self._refuse(stream, error)

    def _ignore(self, stream: Stream, ends: bool) -> None:  # more came of a request that is refused
        stream.complete = ends
        if ends and stream.answered:
            self._drop(stream, cancel=False)

    def _complete(self, stream: Stream) -> None:
        """Raises ApiError."""
        request = stream.request()
        self._in.end(stream)
        stream.task = self._loop.create_task(self._serve(stream, request))

    async def _serve(self, stream: Stream, request: Request) -> None:
        try:
            await self._server.app(request, stream)
        except Exception:  # noqa: BLE001  (a bug, whatever it is: it is logged, and the client does not wait for ever)
            _log.exception("edge.failed")
            self.reset(stream, h2.INTERNAL_ERROR)
        finally:
            stream.task = None
            self._since_s = time.monotonic()

    def _refuse(self, stream: Stream, error: errors.ApiError) -> None:
        """Answer a request that is not read to its end, or that is malformed: then its stream is reset too."""
        stream.refused = True
        stream.begun_s = time.monotonic()
        self._in.end(stream)
        if error.status == 400:
            self._idle.add()
            stream.complete, stream.reset_code = False, h2.PROTOCOL_ERROR
        stream.respond(error.status, [JSON, *error.headers()], error.body())

    # Answers --------------------------------------------------------------------------------------

    def _answered(self, stream: Stream) -> None:
        self._idle.answered()
        stream.answered = True
        if stream.reset_code:
            self.reset(stream, stream.reset_code, cancel=False)
        elif stream.complete:
            self._drop(stream, cancel=False)

    def reset(self, stream: Stream, code: int, *, cancel: bool = True) -> None:
        """End a stream at once."""
        if stream.open:
            self._reset_here.append(stream.identity)
            self._out.write(h2.reset(stream.identity, code))
            self._drop(stream, cancel=cancel)

    def _drop(self, stream: Stream, *, cancel: bool) -> None:
        """Both sides are done with the stream, or one is and does not care for the other."""
        stream.open = False
        del self._streams[stream.identity]
        self._in.end(stream)
        stream.hold(-stream.held_bytes)
        stream.caught_up()
        if cancel and stream.task is not None:
            stream.task.cancel()
        self._since_s = time.monotonic()
        if self._ending or self._server.closing:
            self._settle()

    def _settle(self) -> None:
        """End it, or say that it will end, if nothing is under way."""
        if self._streams or self._out.in_batch:
            return
        if self._ending:
            super().finish()
        else:
            self.leave()

    # Serving, and the end -------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        return not self._last or any(not stream.complete for stream in self._streams.values())

    @property
    def since_s(self) -> float:
        return self._since_s

    @property
    def busy(self) -> bool:
        return any(stream.task is not None for stream in self._streams.values())

    def look_at_streams(self, now_s: float) -> None:
        self._idle.second_passed()
        server, counts = self._server, self._server.counts
        for stream in list(self._streams.values()):
            if self._blocked_bytes:
                stream.moved = True  # it is not to blame
            timed_out, unread, rest = stream.overdue(now_s, server.read_timeout_s, server.write_timeout_s)
            counts.timed_out += timed_out
            counts.unread += unread
            if timed_out or unread or rest:
                self.reset(stream, h2.NO_ERROR if rest else h2.CANCEL)
        ping = self._silence.look(now_s, bool(self._streams) and not self._blocked_bytes)
        if ping is None:
            counts.timed_out += 1
            self.abort()
        elif ping:
            self._out.write(ping)

    def is_unread(self, now_s: float, limit_s: float) -> bool:
        stuck = any(stream.unsent and now_s - stream.moved_s > limit_s for stream in self._streams.values())
        return stuck or super().is_unread(now_s, limit_s)

    def leave(self) -> None:
        """Some clients, httpx among them, fail what is under way on any GOAWAY, so nothing may be."""
        if self._last and not self._streams:
            self._say_leaving()

    def _say_leaving(self) -> None:
        """New requests are served still, so that none is lost that is on its way (RFC 9113, 6.8)."""
        if not self._said_leaving and not self._ending:
            self._said_leaving, self._since_s = True, time.monotonic()
            self._out.write(h2.goaway(h2.MAX_STREAM, h2.NO_ERROR))

    def finish(self) -> None:
        if not any(stream.unsent for stream in self._streams.values()):  # `is_unread` bounds those
            self._take_no_streams()
            if not self._streams:
                super().finish()

    def close(self) -> None:
        self._take_no_streams()
        super().close()

    def _take_no_streams(self) -> None:
        if not self._ending:
            self._ending = True
            self._out.write(h2.goaway(self._last, h2.NO_ERROR))
        for stream in [stream for stream in self._streams.values() if stream.answered]:
            self.reset(stream, h2.NO_ERROR)

    def _fail(self, error: h2.ProtocolError) -> None:
        """The client broke the protocol, or floods: nothing of it goes on."""
        self._refused = self._ending = self._reader.over = True
        self._server.counts.flooded += error.code == h2.ENHANCE_YOUR_CALM
        self._out.write(h2.goaway(self._last, error.code, str(error)))
        for stream in list(self._streams.values()):
            self._drop(stream, cancel=True)

    def _take_no_more(self) -> None:
        self._reader.over = True
        self._pace(reads=True)

    def _pace(self, *, reads: bool) -> None:
        if self._transport is not None and reads is self._paused:
            self._paused = not reads
            (self._transport.resume_reading if reads else self._transport.pause_reading)()
