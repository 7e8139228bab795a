"""One HTTP/2 connection to a gRPC server, with its calls."""

import asyncio
from bisect import insort, insort_left
from collections.abc import Callable
from operator import attrgetter
from typing import cast

from inference.core.backend_errors import LostCallError, RefusedError, UnreachableError
from inference.wires.grpc import http2 as h2
from inference.wires.grpc.call import WINDOW, Call
from inference.wires.grpc.errors import CallFailedError, GrpcError, Status, error_of_reset
from inference.wires.grpc.headers import informational, outcome, refusal, request_headers
from inference.wires.grpc.keepalive import Keepalive, Watch

_LAST_STREAM = (1 << 31) - 1
_priority = attrgetter("priority")
# After a refusal at the limit: the server still counts a call that it has answered.
_REFUSED_PAUSE_S = 0.01


class Connection(asyncio.Protocol):
    """Made by `loop.create_connection`; `ready` is set once the server's settings are known."""

    def __init__(
        self, authority: str, scheme: bytes, keepalive: Keepalive, on_lost: Callable[["Connection"], None]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self.loop.create_future()
        self.draining = False  # no more calls begin on it
        self.arrivals = 0  # how often something arrived from the server
        self.answers = 0  # how often a part of an answer did
        self._keepalive = keepalive
        self._watch: Watch | None = None
        self._lost_because = ""
        self._scheme = scheme
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._authority = authority.encode()
        self._calls: dict[int, Call] = {}
        self._waiting: list[Call] = []  # for one of those to end: by priority, and then in order
        self._next_stream = 1
        self._received = bytearray()
        self._out: list[bytes] = []
        self._credit = 0
        self._window = h2.DEFAULT_WINDOW
        self._initial_window = h2.DEFAULT_WINDOW
        self._max_frame = h2.DEFAULT_MAX_FRAME
        self._max_calls = _LAST_STREAM
        self._pause: asyncio.TimerHandle | None = None  # no call begins before its end
        self._headers_of: tuple[int, int, bytearray] | None = None  # stream, flags and block of headers still going on
        self._prefixes: dict[bytes, bytes] = {}

    @property
    def calls(self) -> int:
        return len(self._calls)

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self.draining

    @property
    def full(self) -> bool:
        """Whether another call would have to wait for one of those in flight to end."""
        return len(self._calls) >= self._max_calls or self._pause is not None

    def start(self, path: bytes, body: bytes | None, metadata: bytes = b"", priority: int = 1) -> Call:
        """Send a call's request, or let it wait while the server is at its limit of calls (`Call.waiting`). `metadata` is
        headers encoded by `http2.literal`. Without a body, messages follow by `Call.send`. Raises UnreachableError.
        """
        if self._transport is None or self.draining:
            raise UnreachableError("the connection is closing")
        call = Call(self, (path, body, metadata), priority)
        if not self.full:
            self._begin(call)
        else:
            insort(self._waiting, call, key=_priority)
        return call

    def _begin(self, call: Call) -> None:
        assert call.request is not None
        path, body, metadata = call.request
        call.stream = stream = self._next_stream
        call.window = self._initial_window
        self._next_stream += 2
        if self._next_stream > _LAST_STREAM:
            self.draining = True
        self._calls[stream] = call
        head = h2.frame(h2.HEADERS, h2.END_HEADERS, stream, self._prefix(path) + metadata)
        if body is None:
            call.request = None  # what was sent since is not kept, so it cannot be sent again
            self._write(head)
            if call.unsent is not None:
                self._send(call)
            return
        data = h2.message(body)
        if len(data) <= self._max_frame and len(data) <= self._window and len(data) <= call.window:
            self._window -= len(data)
            # Where the server has no other call, it waits for this one.
            self._write(head + h2.frame(h2.DATA, h2.END_STREAM, stream, data), at_once=len(self._calls) == 1)
        else:
            self._write(head)
            call.unsent = memoryview(data)
            self._send(call)

    def _begin_waiting(self) -> None:
        """Send calls that wait, as many as the server takes."""
        while self._waiting and not self.full and self._next_stream <= _LAST_STREAM:
            call = self._waiting.pop(0)
            self._begin(call)
            call.wake()

    def _wait_again(self, call: Call) -> None:
        """The server refused the call at its limit of calls. It waits before the others of its priority."""
        del self._calls[call.stream]
        call.stream, call.unsent = 0, None
        insort_left(self._waiting, call, key=_priority)
        if self._pause is None:
            self._pause = self.loop.call_later(_REFUSED_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._begin_waiting()

    def _refuse_waiting(self, message: str) -> None:
        while self._waiting:
            self._waiting.pop(0).end(RefusedError(message))

    def send(self, call: Call, data: bytes) -> None:
        """Send more of a call's request, and its end if the call is not open any more."""
        call.unsent = memoryview(data if call.unsent is None else bytes(call.unsent) + data)
        if call.stream:
            self._send(call)

    def ping(self) -> None:
        """Ask the server for a sign of life, which counts in `arrivals`."""
        if self._transport is not None:
            self._write(h2.frame(h2.PING, 0, 0, bytes(8)))

    def cancel(self, call: Call) -> None:
        if call.waiting:
            self._waiting.remove(call)
            call.end(CallFailedError(Status.CANCELLED, "cancelled here"))
            return
        self._calls.pop(call.stream, None)
        call.end(CallFailedError(Status.CANCELLED, "cancelled here"))
        self._write(h2.reset(call.stream, h2.CANCEL))
        self._call_ended()

    def close(self) -> None:
        """No more calls; the connection ends with the last of those in flight."""
        self.draining = True
        self._close_if_drained()

    def abort(self, reason: str = "") -> None:
        """End at once; calls in flight fail as LostCallError, which says the reason."""
        if self._transport is not None:
            self._lost_because = reason
            self._transport.abort()

    def _call_ended(self) -> None:
        """Another call takes the place of one that has ended, or the connection ends with the last of them."""
        if self._waiting:
            self._begin_waiting()
        if self.draining:
            self._close_if_drained()

    def _close_if_drained(self) -> None:
        if not self._calls and self._transport is not None:
            self._refuse_waiting("the connection is closing")
            self._flush()
            self._transport.close()

    def _prefix(self, path: bytes) -> bytes:
        """The headers every call to `path` begins with, encoded once."""
        prefix = self._prefixes.get(path)
        if prefix is None:
            prefix = self._prefixes[path] = request_headers(self._scheme, self._authority, path)
        return prefix

    def _send(self, call: Call) -> None:
        """Send as much of a call's request as the windows allow."""
        rest = call.unsent
        while rest is not None and self._transport is not None:
            size = min(len(rest), self._max_frame, self._window, call.window)
            if size <= 0 < len(rest):
                return
            last = size == len(rest)
            end = last and not call.open
            self._write(h2.frame(h2.DATA, h2.END_STREAM if end else 0, call.stream, bytes(rest[:size])))
            self._window -= size
            call.window -= size
            rest = call.unsent = None if last else rest[size:]

    def _send_unsent(self) -> None:
        for call in list(self._calls.values()):
            if call.unsent is not None:
                self._send(call)

    # asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        hello = ((h2.HEADER_TABLE_SIZE, 0), (h2.ENABLE_PUSH, 0), (h2.INITIAL_WINDOW_SIZE, WINDOW))
        self._watch = Watch(self, self._keepalive)
        self._transport.write(h2.PREFACE + h2.settings(hello) + h2.window_update(0, WINDOW - h2.DEFAULT_WINDOW))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.draining = True
        if self._watch is not None:
            self._watch.stop()
        reason = self._lost_because or error or "closed by the server"
        calls, self._calls = self._calls, {}
        waiting, self._waiting = self._waiting, []
        for call in calls.values():
            call.end(LostCallError(f"connection lost: {reason}"))
        for call in waiting:
            call.end(UnreachableError(f"connection lost before it was sent: {reason}"))
        if not self.ready.done():
            self.ready.set_exception(UnreachableError(f"no HTTP/2 server answered: {reason}"))
            self.ready.exception()  # marks it as seen: the caller may have left
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        self.arrivals += 1
        received = self._received
        buffer: bytes | bytearray = data
        if received:
            received += data
            buffer = received
        at, end = 0, len(buffer)
        try:
            while end - at >= h2.HEAD_BYTES:
                size, kind, flags, stream = h2.parse_head(buffer, at)
                if size > h2.DEFAULT_MAX_FRAME:
                    raise h2.ProtocolError(f"a frame of {size} bytes")
                start = at + h2.HEAD_BYTES
                if end - start < size:
                    break
                at = start + size
                self._frame(kind, flags, stream, bytes(buffer[start:at]))
        except (h2.ProtocolError, IndexError) as error:
            self._fail(error)
            return
        if buffer is received:
            del received[:at]
        elif at < end:
            received += data[at:]

    def _fail(self, error: Exception) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.end(CallFailedError(Status.INTERNAL, f"HTTP/2: {error}"))
        self.abort()  # which also ends the calls that wait

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._headers_of is not None and kind != h2.CONTINUATION:
            raise h2.ProtocolError("headers were interrupted")
        if kind == h2.DATA:
            self._on_data(flags, stream, payload)
        elif kind == h2.HEADERS:
            block = h2.unpad(flags, payload) if flags & (h2.PADDED | h2.PRIORITY) else payload
            if flags & h2.END_HEADERS:
                self._on_headers(flags, stream, block)
            else:
                self._headers_of = (stream, flags, bytearray(block))
        elif kind == h2.CONTINUATION:
            self._on_continuation(flags, stream, payload)
        elif kind == h2.RST_STREAM:
            self._on_reset(stream, h2.u32(payload))
        elif kind == h2.SETTINGS:
            self._on_settings(flags, payload)
        elif kind == h2.PING:
            if not flags & h2.ACK:
                self._write(h2.frame(h2.PING, h2.ACK, 0, payload))
        elif kind == h2.GOAWAY:
            self._on_goaway(payload)
        elif kind == h2.WINDOW_UPDATE:
            self._on_window(stream, h2.u32(payload) & 0x7FFFFFFF)
        elif kind == h2.PUSH:
            raise h2.ProtocolError("a push, though we allow none")

    def _write(self, data: bytes, *, at_once: bool = False) -> None:
        """Send with whatever else this turn of the event loop has to send: one system call for all calls' frames."""
        self._out.append(data)
        if at_once:
            self._flush()
        elif len(self._out) == 1:
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        self.answers += 1
        self._credit += len(payload)
        if self._credit >= WINDOW // 2:
            self._write(h2.window_update(0, self._credit))
            self._credit = 0
        call = self._calls.get(stream)
        if call is None:
            return  # cancelled: data that was under way still arrives
        call.credit += len(payload)
        if call.credit >= WINDOW // 2 and not flags & h2.END_STREAM and not call.unread:
            self.give_back(call)
        if payload:
            call.feed(h2.unpad(flags & h2.PADDED, payload) if flags & h2.PADDED else payload)
        if flags & h2.END_STREAM:
            self._finish(call, CallFailedError(Status.UNKNOWN, "the answer ended without a status"))

    def give_back(self, call: Call) -> None:
        """Let the server send as many bytes more as have arrived."""
        if call.stream in self._calls:
            self._write(h2.window_update(call.stream, call.credit))
        call.credit = 0

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._headers_of is None or self._headers_of[0] != stream:
            raise h2.ProtocolError("a CONTINUATION of nothing")
        _, first_flags, block = self._headers_of
        block += payload
        if len(block) > h2.DEFAULT_MAX_FRAME * 4:
            raise h2.ProtocolError("headers without end")
        if flags & h2.END_HEADERS:
            self._headers_of = None
            self._on_headers(first_flags, stream, bytes(block))

    def _on_headers(self, flags: int, stream: int, block: bytes) -> None:
        call = self._calls.get(stream)
        if call is None:
            return
        self.answers += 1
        headers = h2.decode_headers(block)
        if flags & h2.END_STREAM:
            call.trailers = headers
            self._finish(call, outcome(headers))
        elif not informational(headers):
            call.request = None
            call.headers = headers
            if (error := refusal(headers)) is not None:
                self._finish(call, error, stop=True)

    def _on_reset(self, stream: int, code: int) -> None:
        call = self._calls.get(stream)
        if call is None:
            return
        if code != h2.REFUSED_STREAM:
            self._finish(call, error_of_reset(code))
        elif call.request is not None and len(self._calls) >= self._max_calls and not self.draining:
            self._wait_again(call)
        else:
            self._finish(call, RefusedError("the server refused the call"))

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & h2.ACK:
            return
        for key, value in h2.parse_settings(payload):
            if key == h2.INITIAL_WINDOW_SIZE:
                for call in self._calls.values():
                    call.window += value - self._initial_window
                self._initial_window = value
            elif key == h2.MAX_FRAME_SIZE:
                self._max_frame = value
            elif key == h2.MAX_CONCURRENT_STREAMS:
                self._max_calls = value
        self._write(h2.frame(h2.SETTINGS, h2.ACK, 0))
        if not self.ready.done():
            self.ready.set_result(None)
        self._send_unsent()
        self._begin_waiting()

    def _on_goaway(self, payload: bytes) -> None:
        self.draining = True
        last = h2.u32(payload) & 0x7FFFFFFF
        if h2.u32(payload[4:]) == h2.ENHANCE_YOUR_CALM and payload[8:] == b"too_many_pings":
            self._keepalive.too_many()
        self._refuse_waiting("the server is going away")
        for call in [call for call in self._calls.values() if call.stream > last]:
            self._finish(call, RefusedError("the server is going away"))
        self._close_if_drained()

    def _on_window(self, stream: int, increment: int) -> None:
        if stream == 0:
            self._window += increment
            self._send_unsent()
        elif (call := self._calls.get(stream)) is not None:
            call.window += increment
            self._send(call)

    def _finish(self, call: Call, error: GrpcError | UnreachableError | None, *, stop: bool = False) -> None:
        self._calls.pop(call.stream, None)
        if stop or call.open or call.unsent is not None:  # answered before the whole request was sent: stop sending
            self._write(h2.reset(call.stream, h2.NO_ERROR))
        call.end(error)
        self._call_ended()
