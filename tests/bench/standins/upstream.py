"""An HTTP upstream that answers at once, for the proxies that speak HTTP; it also takes OTLP, for the gateway's spans.

    python -m tests.bench.standins.upstream PORT [TOKENS [APART_S]]

`POST /v1/chat/completions` answers a completion of TOKENS tokens, streamed when the body asks for it, in one write or one event at a time;
any other POST is acknowledged with an empty 200 in the request's content type, which is what an OTLP receiver says. `GET` of `/v1/models`,
`/version` and `/health` answers as vLLM does. Nothing but bytes in, bytes out: its rate is also the floor that the figures
are read against.
"""

import asyncio
import json
import re
import sys
from typing import cast

import uvloop

from tests.bench.standins.triton import DEFAULT_TOKENS, TOKEN

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_STREAM = re.compile(rb'"stream": ?true')
_MODEL = "chat-small"


def completion(tokens: int) -> bytes:
    """A whole HTTP response."""
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": _MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": TOKEN.decode() * tokens},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 40, "completion_tokens": tokens, "total_tokens": 40 + tokens},
        },
        separators=(",", ":"),
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def stream(tokens: int) -> bytes:
    """A whole HTTP response of server-sent events, each in its chunk."""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}, *[{"content": TOKEN.decode()}] * tokens, {}]
    events = [
        json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": _MODEL,
                "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}],
            },
            separators=(",", ":"),
        )
        for delta in deltas
    ]
    usage = {"prompt_tokens": 40, "completion_tokens": tokens, "total_tokens": 40 + tokens}
    last = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": _MODEL}
    events.append(json.dumps({**last, "choices": [], "usage": usage}, separators=(",", ":")))
    chunks = [f"data: {event}\n\n".encode() for event in [*events, "[DONE]"]]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def page(document: object) -> bytes:
    """A whole HTTP response."""
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_PAGES = {
    b"/v1/models": page({"object": "list", "data": [{"id": _MODEL, "owned_by": "vllm", "max_model_len": 32_768}]}),
    b"/version": page({"version": "0.32.0"}),
    b"/health": page({}),
}
_NOT_THERE = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class Upstream(asyncio.Protocol):
    def __init__(self, whole: bytes, streamed: bytes, apart_s: float) -> None:
        self._whole, self._streamed, self._apart_s = whole, streamed, apart_s
        self._input = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only

    def data_received(self, data: bytes) -> None:
        buffer = self._input + data if self._input else data
        while (head := buffer.find(b"\r\n\r\n")) >= 0:
            if length := _LENGTH.search(buffer, 0, head + 2):
                end = head + 4 + int(length[1])
            elif _CHUNKED.search(buffer, 0, head + 2):
                tail = buffer.find(b"\r\n0\r\n\r\n", head)
                end = tail + 7 if tail >= 0 else len(buffer) + 1
            else:
                end = head + 4
            if len(buffer) < end:
                break
            answer = self._answer(buffer[:head], buffer[head:end])
            if self._apart_s and answer is self._streamed:
                self._write_apart(answer.replace(b"\n\n\r\n", b"\n\n\r\n\0").split(b"\0"))
            else:
                self._transport.write(answer)
            buffer = buffer[end:]
        self._input = buffer

    def _write_apart(self, parts: list[bytes]) -> None:
        if not self._transport.is_closing():
            self._transport.write(parts[0])
            if parts[1:]:
                asyncio.get_running_loop().call_later(self._apart_s, self._write_apart, parts[1:])

    def _answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"POST /v1/chat/completions"):
            return self._streamed if _STREAM.search(body) else self._whole
        if head.startswith(b"GET "):
            return _PAGES.get(head.split(b" ", 2)[1], _NOT_THERE)
        kind = b"application/json" if b"application/json" in head else b"application/x-protobuf"
        return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: 0\r\n\r\n" % kind


async def serve(port: int, tokens: int, apart_s: float) -> None:
    whole, streamed = completion(tokens), stream(tokens)
    server = await asyncio.get_running_loop().create_server(
        lambda: Upstream(whole, streamed, apart_s), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    port, *more = sys.argv[1:]
    tokens, apart_s = [*more, "0"][:2] if more else (DEFAULT_TOKENS, 0)
    uvloop.run(serve(int(port), int(tokens), float(apart_s)))
