"""Servers with OpenAI's API that fail at the level of their connections, which libraries for servers do not let them."""

import asyncio
import json
import socket
import struct
from collections.abc import Callable

TOKENS = ("one ", "two")
MODEL = "llm"

Fault = Callable[["Connection"], object]


class Faults:
    """What goes wrong at all servers of a pool: `fault` happens to the next `times` inferences, wherever they come. `struck` are the
    servers where it did, `probed` those that were; `probe` is the status of probes.
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.times = 0
        self.struck: set[FaultyServer] = set()
        self.probed: set[FaultyServer] = set()
        self.probe = 200
        self.kept_only = False  # of a connection that has had an answer

    def strikes(self, server: "FaultyServer", connection: "Connection") -> bool:
        if self.fault is None or not self.times or (self.kept_only and not connection.answered):
            return False
        self.times -= 1
        self.struck.add(server)
        return True


class Connection:
    """One connection of a client, while it has an inference."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.answered = 0
        self.streams = True

    def send(self, status: int, body: bytes, kind: str = "application/json", more: str = "") -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        self.writer.write(head.encode() + body)

    def begin(self, *tokens: str) -> None:
        """The head of an answer, and these tokens."""
        kind = b"text/event-stream" if self.streams else b"application/json"
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % kind)
        if not self.streams:
            message = {"role": "assistant", "content": "".join(tokens)}
            if tokens:
                self._chunk(json.dumps({"id": "x", "choices": [{"index": 0, "message": message}]}).encode()[:-3])
            return
        for token in tokens:
            self._event({"choices": [{"index": 0, "delta": {"content": token}}]})

    def answer(self) -> None:
        self.begin(*TOKENS)
        if not self.streams:
            self._chunk(b', "finish_reason": "stop"}]}')
            self.end()
            return
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
        self.end()

    def end(self) -> None:
        if self.streams:
            self._chunk(b"data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Nothing that waits is sent, and the client hears of it at once."""
        made = self.writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def _event(self, document: object) -> None:
        self._chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))


class FaultyServer:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def start(self) -> "FaultyServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, faults, task = Connection(reader, writer), self._faults, asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                method, path, _ = head.split(b" ", 2)
                if method == b"get":
                    connection.send(*self._page(path))
                    connection.answered += 1
                    faults.probed.add(self)
                    continue
                body = reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
                if faults.strikes(self, connection) and faults.fault is not None:
                    happens = faults.fault
                    if not getattr(happens, "early", False):
                        connection.streams = b'"stream":true' in await body
                    else:
                        body.close()
                    done = happens(connection)
                    if asyncio.iscoroutine(done):
                        await done
                else:
                    connection.streams = b'"stream":true' in await body
                    connection.answer()
                await writer.drain()
                connection.answered += 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # asyncio logs a connection's task that is cancelled
        finally:
            self._tasks.discard(task)
            writer.close()

    def _page(self, path: bytes) -> tuple[int, bytes]:
        if path != b"/v1/models":
            return 404, b"{}"
        return self._faults.probe, json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()
