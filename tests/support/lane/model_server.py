"""A server of one model with OpenAI's API. It answers what it was asked, and counts how often."""

import asyncio
import json
import math
from collections import Counter
from typing import Any

from aiohttp import web

from tests.support.http_server import ThreadedServer

MODEL = "echo"
INPUT_TOKENS, OUTPUT_TOKENS = 7, 3
TOKENS = INPUT_TOKENS + OUTPUT_TOKENS
RESPONSE = {"id": "resp_of_the_server", "object": "response", "created_at": 1, "model": MODEL}


class EchoServer(ThreadedServer):
    """A text that begins with `status:` is answered with that status."""

    path = "/v1"

    def __init__(self, delay_s: float = 0.0) -> None:
        super().__init__(
            web.get("/v1/models", self._models),
            web.get("/health", self._healthy),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/responses", self._response),
        )
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.body: dict[str, Any] = {}  # of the latest request for a response
        self.running = 0
        self.delay_s = delay_s
        self._gate = asyncio.Event()
        self._gate.set()
        self._middle = asyncio.Event()

    def hold(self) -> None:
        """Hold back every answer but to texts that begin with `free`."""
        self.loop.call(self._gate.clear)

    def let_go(self) -> None:
        self.loop.call(self._gate.set)

    def go_on(self) -> None:
        self.loop.call(self._middle.set)

    async def _models(self, _: web.Request) -> web.Response:
        card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 32_768}
        return web.json_response({"object": "list", "data": [card]})

    async def _healthy(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _chat(self, request: web.Request) -> web.Response:
        text = str(json.loads(await request.read())["messages"][-1]["content"])
        if refused := await self._refused(text, request):
            return refused
        message = {"role": "assistant", "content": f"echo {text}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": TOKENS}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
        return web.json_response({**head, "choices": [choice], "usage": usage})

    async def _response(self, request: web.Request) -> web.StreamResponse:
        """A text that begins with `long` is cut, to one that begins with `odd` the answer has NaN, and to `page` it is a page."""
        self.body = json.loads(await request.read())
        text = str(self.body["input"])
        if refused := await self._refused(text, request):
            return refused
        if self.body.get("stream"):
            return await self._stream(text, request)
        response = _ended(f"echo {text}")
        if text.startswith("long"):
            response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        if text.startswith("odd"):
            response["odd"] = math.nan
        if text.startswith("page"):
            return web.Response(text="<html>", content_type="text/html")
        return web.json_response(response)

    async def _stream(self, text: str, request: web.Request) -> web.StreamResponse:
        """A text that begins with `half` or `broken` stops after its first word until `go_on`, and the latter ends there. One that begins
        with `odd` is written as some servers do.
        """
        out = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await out.prepare(request)
        begun = {"response": {**RESPONSE, "status": "in_progress", "output": []}}
        kinds: list[tuple[str, dict[str, Any]]] = [("response.created", begun), ("response.in_progress", begun)]
        kinds += [("response.output_text.delta", {"item_id": "msg_1", "delta": f"{word} "}) for word in text.split()]
        kinds.append(("response.completed", {"response": _ended(f"{text} ")}))
        odd = {"odd": math.nan} if text.startswith("odd") else {}
        for number, (kind, members) in enumerate(kinds):
            data = json.dumps({"type": kind, "sequence_number": number, **odd, **members})
            end = "" if odd and kind == "response.completed" else "\n\n"
            await out.write(f"event: {kind}\ndata: {data}{end}".encode())
            if number == 2 and text.startswith(("half", "broken")):
                await self._middle.wait()
                self._middle.clear()
                if text.startswith("broken"):
                    assert request.transport is not None
                    request.transport.abort()
                    break
        return out

    async def _refused(self, text: str, request: web.Request) -> web.Response | None:
        """What it answers in place of an answer, once it may."""
        self.asked[text] += 1
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.running += 1
        try:
            if not text.startswith("free"):
                await self._gate.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
        finally:
            self.running -= 1
        self.answered[text] += 1
        if text.startswith("status:"):
            status = int(text.split(":")[1])
            return web.json_response({"error": {"message": "no", "type": "x", "code": status}}, status=status)
        return None


def _ended(text: str) -> dict[str, Any]:
    """A response that has said all of it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": TOKENS}
    return {**RESPONSE, "status": "completed", "output": [item], "usage": usage}
