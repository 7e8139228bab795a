"""A model server with OpenAI's API in one file of the standard library, so that a process of it starts at once.

    python -S -I slow_replica.py PORT MODEL TOKENS STEP_MS SLOTS

Every chat answers TOKENS tokens, one each STEP_MS ms, SLOTS chats at a time; further ones wait. SIGTERM ends it at once, with
whatever it is answering: a request that is still there is lost, and its client sees that.
"""

import asyncio
import json
import sys

_ID = {"id": "chatcmpl-1", "created": 1}
_JSON = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


class Server:
    def __init__(self, model: str, tokens: int, step_s: float, slots: int) -> None:
        self._model, self._tokens, self._step_s = model, tokens, step_s
        self._slots = asyncio.Semaphore(slots)
        self._waiting = self._running = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                await self._answer(lines[0].split(" ")[1], body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/models":
            cards = [{"id": self._model, "object": "model", "owned_by": "vllm", "max_model_len": 32_768}]
            _write(writer, {"object": "list", "data": cards})
        elif path == "/version":
            _write(writer, {"version": "0.32.0"})
        elif path == "/health":
            _write(writer, {})
        elif path == "/metrics":
            labels = f'{{model_name="{self._model}",engine="0"}}'
            text = f"vllm:num_requests_running{labels} {self._running}\nvllm:num_requests_waiting{labels} {self._waiting}\n"
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%b"
                % (len(text), text.encode())
            )
        elif path == "/v1/chat/completions":
            await self._chat(json.loads(body), writer)
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    async def _chat(self, asked: dict[str, object], writer: asyncio.StreamWriter) -> None:
        streamed = bool(asked.get("stream"))
        most = asked.get("max_tokens") or asked.get("max_completion_tokens") or self._tokens
        tokens = min(int(str(most)), self._tokens)
        self._waiting += 1
        async with self._slots:
            self._waiting -= 1
            self._running += 1
            try:
                if streamed:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                    )
                for _ in range(tokens):
                    await asyncio.sleep(self._step_s)
                    if streamed:
                        self._event(writer, [{"index": 0, "delta": {"content": "w "}, "finish_reason": None}])
            finally:
                self._running -= 1
        usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens}
        if streamed:
            self._event(writer, [{"index": 0, "delta": {}, "finish_reason": "stop"}])
            self._event(writer, [], usage=usage)
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        else:
            message = {"role": "assistant", "content": "w " * tokens}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            _write(
                writer, {**_ID, "object": "chat.completion", "model": self._model, "choices": choices, "usage": usage}
            )

    def _event(self, writer: asyncio.StreamWriter, choices: list[object], **more: object) -> None:
        event = {**_ID, "object": "chat.completion.chunk", "model": self._model, "choices": choices, **more}
        data = f"data: {json.dumps(event)}\n\n".encode()
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _write(writer: asyncio.StreamWriter, document: object) -> None:
    body = json.dumps(document).encode()
    writer.write(_JSON % (b"200 OK", len(body), body))


async def main() -> None:
    port, model, tokens, step_ms, slots = sys.argv[1:]
    server = Server(model, int(tokens), float(step_ms) / 1e3, int(slots))
    await (await asyncio.start_server(server.serve, "127.0.0.1", int(port))).serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
