"""Stand-ins for OpenAI-compatible servers that need a GPU or a long compilation. Each takes what its server's published
sources take and refuses the rest as that does; they answer a few tokens, and fail on demand.

Sources: python/sglang/srt/entrypoints/openai/protocol.py and http_server.py of sgl-project/sglang, tools/server/README.md
of ggml-org/llama.cpp, tensorrt_llm/serve/{openai_protocol,openai_server}.py of NVIDIA/TensorRT-LLM,
lib/llm/src/http/service/*.rs and lib/llm/src/protocols/openai/validate.rs of ai-dynamo/dynamo.
"""

import asyncio
import base64
import json
import struct
from typing import Any, ClassVar

from aiohttp import web

from tests.support.http_server import LoopServer

MODEL = "llm"
_OPENAI = {
    *("model", "messages", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "max_tokens", "n"),
    *("presence_penalty", "response_format", "seed", "stop", "stream", "stream_options", "temperature", "top_p"),
    *("tools", "tool_choice", "user", "reasoning_effort", "parallel_tool_calls"),
}
_TOKENS = ("A ", "weir", ".")
GENERATION, EMBEDDING = frozenset(("chat", "text_completion")), frozenset(("embeddings",))


class ModelServer(LoopServer):
    """A server of one model. `fault` is what it does instead of answering; `gate` holds back all but the first token while
    it is cleared. `bodies` and `headers` are those of the inferences that came, `running` how many are under way, `aborted`
    how many lost their client.
    """

    kind: ClassVar[str]
    owner: ClassVar[str]
    takes: ClassVar[set[str]] = _OPENAI
    refuses_unknown: ClassVar[bool] = False
    reasoning_field: ClassVar[str] = "reasoning_content"
    busy_status: ClassVar[int] = 503
    keep_alive: ClassVar[bytes] = b""
    listed: ClassVar[dict[str, Any]] = {}
    encodes_base64: ClassVar[bool] = True
    logprobs: ClassVar[bool] = False
    """Of every token, whether they were asked for or not."""
    after = b""
    """Comes along with the end of a stream."""

    path = "/v1"

    def __init__(self) -> None:
        self.model = MODEL
        self.fault = ""
        self.status = 200  # of what it makes
        self.operations = GENERATION | EMBEDDING  # what its model is for
        self.tokens: tuple[str, ...] = _TOKENS
        self.finish_reason = "stop"
        self.reasoning = ""
        self.tool_call: tuple[str, str] | None = None  # name and arguments
        self.sends_usage = True
        self.gate = asyncio.Event()
        self.gate.set()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.running = self.aborted = 0
        self.probed: list[str] = []

    def handlers(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._infer),
            web.post("/v1/completions", self._infer),
            web.post("/v1/embeddings", self._embed),
            web.get("/v1/models", self._models),
            *(web.get(path, self._page) for path in self.pages()),
            *(web.post(path, route) for path, route in self.routes().items()),
        ]

    def pages(self) -> dict[str, Any]:
        """What GET answers, by path: JSON, a status, or a text."""
        return {"/health": 200}

    def routes(self) -> dict[str, Any]:
        """Further POST routes."""
        return {}

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> web.Response:
        """An error in the shape of this server."""
        raise NotImplementedError

    def unserved(self, operation: str) -> web.Response:
        """The answer where its model is not for this: of FastAPI, which has no such route then."""
        return web.json_response({"detail": "Not Found"}, status=404)

    def check(self, body: dict[str, Any]) -> str:
        """What is wrong with the body; empty for nothing."""
        unknown = sorted(set(body) - self.takes - ({"prompt", "echo"} if "prompt" in body else set()))
        if unknown and self.refuses_unknown:
            return f"Unsupported parameter(s): {', '.join(unknown)}"
        if ("messages" in body) == ("prompt" in body):
            return "messages or prompt is missing"
        if body.get("stream_options") and not body.get("stream"):
            return "Stream options can only be defined when stream is true"
        if "messages" in body and not isinstance(body.get("logprobs", False), bool):
            return "logprobs must be a boolean"
        return ""

    async def middle_of_stream(self, response: web.StreamResponse) -> None:
        """How a stream fails after its first tokens."""
        await response.write(_event({"error": {"message": "EngineDeadError", "type": "Internal", "code": 500}}))
        await response.write(b"data: [DONE]\n\n")

    async def _page(self, request: web.Request) -> web.Response:
        answer = self.pages()[request.path]
        self.probed.append(request.path)
        if self.fault == "hangs":
            await asyncio.Event().wait()
        if isinstance(answer, int):
            return web.Response(status=503 if self.fault == "loading" else answer)
        return web.Response(text=answer) if isinstance(answer, str) else web.json_response(answer)

    async def _models(self, request: web.Request) -> web.Response:
        self.probed.append("/v1/models")
        card = {"id": self.model, "object": "model", "created": 1, "owned_by": self.owner, **self.listed}
        return web.json_response({"object": "list", "data": [card] if self.fault != "no model" else []})

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        operation = "text_completion" if "prompt" in body else "chat"
        if operation not in self.operations:
            return self.unserved(operation)
        if wrong := self.check(body):
            return self.error(400, wrong)
        if body["model"] != self.model:
            return self.error(404, f"The model `{body['model']}` does not exist", "NotFoundError")
        if self.fault == "busy":
            return self.error(self.busy_status, "The request queue is full.", "ServiceUnavailable")
        if self.fault.isdigit():
            return self.error(
                int(self.fault), 'Traceback (most recent call last):\n  File "/srv/engine.py", line 7', "Internal"
            )
        if self.fault == "drops":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        self.running += 1
        try:
            if self.fault == "mute":
                await asyncio.Event().wait()
            return await (self._stream(request, body) if body.get("stream") else self._whole(body))
        except (asyncio.CancelledError, ConnectionResetError):
            self.aborted += 1
            raise
        finally:
            self.running -= 1

    async def _embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        if "embeddings" not in self.operations:
            return self.unserved("embeddings")
        vectors = [[float(number), 0.5] for number in range(len(body["input"]))]
        if self.fault == "no JSON":
            return web.Response(text="<html>it is being mended</html>", content_type="text/html")
        if self.fault == "other JSON":
            return web.json_response({"object": "page"})
        if self.fault == "too few":
            vectors.pop()
        encodes = self.encodes_base64 and body.get("encoding_format") == "base64"
        data = [
            {"index": number, "embedding": _base64(vector) if encodes else vector}
            for number, vector in reversed(list(enumerate(vectors)))
        ]
        return web.json_response({"object": "list", "data": data, "usage": {"prompt_tokens": 5, "total_tokens": 5}})

    def _usage(self) -> dict[str, int]:
        output = len(self.tokens)
        return {"prompt_tokens": 7, "completion_tokens": output, "total_tokens": 7 + output}

    async def _stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(status=self.status, headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        chat = "messages" in body
        if chat:
            await response.write(self._chunk(chat, {"role": "assistant", "content": None}))
        await response.write(self.keep_alive)
        if self.fault == "abort":
            await response.write(self._chunk(chat, {}, "abort") + b"data: [DONE]\n\n")
            return response
        if self.reasoning:
            await response.write(self._chunk(chat, {self.reasoning_field: self.reasoning}))
        for number, token in enumerate(self.tokens):
            await response.write(self._chunk(chat, {"content": token}))
            if self.fault == "fails midway":
                await self.middle_of_stream(response)
                return response
            if self.fault == "cut midway":
                assert request.transport is not None
                request.transport.abort()
                return response
            if number == 0:
                await self.gate.wait()
        if self.tool_call is not None:
            name, arguments = self.tool_call
            first = {"id": "call-1", "type": "function", "function": {"name": name, "arguments": ""}}
            await response.write(self._chunk(chat, {"tool_calls": [{"index": 0, **first}]}))
            for part in (arguments[:4], arguments[4:]):
                await response.write(self._chunk(chat, {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}))
        if self.fault != "no finish reason":
            await response.write(self._chunk(chat, {}, "tool_calls" if self.tool_call else self.finish_reason))
        if self.fault == "silent at the end":
            await asyncio.Event().wait()
        if self.sends_usage and (body.get("stream_options") or {}).get("include_usage"):
            await response.write(_event({"id": "x", "choices": [], "usage": self._usage()}))
        await response.write(b"data: [DONE]\n\n" + self.after)
        return response

    def _chunk(self, chat: bool, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        carried = {"delta": delta} if chat else {"text": delta.get("content") or ""}
        choice = {"index": 0, **carried, "logprobs": self._logprobs(delta), "finish_reason": finish_reason}
        return _event({"id": "x", "object": "chunk", "created": 1, "model": self.model, "choices": [choice]})

    def _logprobs(self, said: dict[str, Any]) -> dict[str, Any] | None:
        return {"content": [{"token": said["content"]}]} if self.logprobs and said.get("content") else None

    async def _whole(self, body: dict[str, Any]) -> web.Response:
        await self.gate.wait()
        if self.fault == "fails with 200":
            return web.json_response({"error": {"message": "out of memory", "code": 500}})
        text = "".join(self.tokens)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self.tool_call is not None:
            name, arguments = self.tool_call
            call = {"id": "call-1", "type": "function", "function": {"name": name, "arguments": arguments}}
            message |= {"tool_calls": [call]}
        carried = {"message": message} if "messages" in body else {"text": text}
        choice = {"index": 0, **carried, "logprobs": self._logprobs(message), "finish_reason": self.finish_reason}
        answer = {"id": "x", "model": self.model, "choices": [choice], "usage": self._usage()}
        return web.json_response(answer, status=self.status)


class VLlm(ModelServer):
    """The routes of tasks that its model is not for are not there."""

    kind, owner = "vllm", "vllm"
    listed: ClassVar[dict[str, Any]] = {"max_model_len": 4_096}

    def pages(self) -> dict[str, Any]:
        return {"/health": 200, "/version": {"version": "0.33.0"}, "/openapi.json": _listed(self.takes)}

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> web.Response:
        error = {"message": message, "type": kind, "param": "model" if status == 404 else None, "code": status}
        return web.json_response({"error": error}, status=status)


class SGLang(ModelServer):
    """A chat reaches its engine also where its model embeds."""

    kind, owner = "sglang", "sglang"
    listed: ClassVar[dict[str, Any]] = {"max_model_len": 4_096}
    priorities = False

    def pages(self) -> dict[str, Any]:
        info = {"version": "0.5.23", "enable_priority_scheduling": self.priorities}
        both = self.operations == GENERATION | EMBEDDING
        facts = {} if both else {"is_generation": self.operations == GENERATION}
        return {"/ready": 200, "/health": 200, "/get_server_info": info, "/model_info": facts}

    def routes(self) -> dict[str, Any]:
        return {"/tokenize": _tokenize}

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> web.Response:
        body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
        return web.json_response(body, status=status)

    def unserved(self, operation: str) -> web.Response:
        if operation != "embeddings":
            return self.error(500, "the scheduler hit an exception", "InternalServerError")
        what = "This model does not appear to be an embedding model by default. Please add `--is-embedding`"
        return self.error(400, f"{what} when launching the server or try another model.")

    def check(self, body: dict[str, Any]) -> str:
        if "priority" in body and not self.priorities:
            return "Using priority is disabled for this server"
        return super().check(body)

    async def middle_of_stream(self, response: web.StreamResponse) -> None:
        error = {"object": "error", "message": "out of memory", "type": "InternalServerError", "code": 500}
        await response.write(_event({"error": error}))


class LlamaCpp(ModelServer):
    kind, owner = "llamacpp", "llamacpp"
    encodes_base64 = False
    keep_alive = b":\n\n"

    def pages(self) -> dict[str, Any]:
        return {"/health": 200, "/props": {"build_info": "b8681", "default_generation_settings": {"n_ctx": 2_048}}}

    def routes(self) -> dict[str, Any]:
        async def count(request: web.Request) -> web.Response:
            body = await request.json()
            return web.json_response({"input_tokens": len(body["messages"]) + len(body["model"])})

        async def count_input(request: web.Request) -> web.Response:
            body = await request.json()
            return web.json_response({"object": "response.input_tokens", "input_tokens": len(body["input"])})

        return {"/v1/chat/completions/input_tokens": count, "/v1/responses/input_tokens": count_input}

    def error(self, status: int, message: str, kind: str = "invalid_request_error") -> web.Response:
        return web.json_response({"error": {"code": status, "message": message, "type": kind}}, status=status)

    def unserved(self, operation: str) -> web.Response:
        what, flag = ("embeddings", "with") if operation == "embeddings" else ("completions", "without")
        said = f"This server does not support {what}. Start it {flag} `--embeddings`"
        return self.error(501, said, "not_supported_error")

    def check(self, body: dict[str, Any]) -> str:
        if body.get("logprobs") and body.get("tools") and body.get("stream"):
            return "logprobs is not supported with tools + stream"
        return super().check(body)


class TrtLlm(ModelServer):
    """It answers 400 to every exception, and cuts a stream that fails."""

    kind, owner = "trtllm", "tensorrt_llm"
    refuses_unknown = True
    takes: ClassVar[set[str]] = (_OPENAI - {"parallel_tool_calls"}) | {
        *("top_k", "min_p", "repetition_penalty", "stop_token_ids", "include_stop_str_in_output", "ignore_eos"),
        *("min_tokens", "skip_special_tokens", "add_generation_prompt", "chat_template_kwargs"),
    }

    def pages(self) -> dict[str, Any]:
        return {"/health": 200, "/version": {"version": "1.3.0"}, "/openapi.json": _listed(self.takes)}

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> web.Response:
        if status == 500:
            status, message = 400, "CppExecutorError: [TensorRT-LLM][ERROR] out of memory"
        body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
        return web.json_response(body, status=status)

    async def middle_of_stream(self, response: web.StreamResponse) -> None:
        """The stream just ends."""


class Dynamo(ModelServer):
    """The text of an error in a stream is in a comment."""

    kind, owner = "dynamo", "nvidia"
    refuses_unknown = True
    busy_status = 529
    takes: ClassVar[set[str]] = _OPENAI | {
        *("top_k", "min_p", "repetition_penalty", "stop_token_ids", "include_stop_str_in_output", "ignore_eos"),
        "min_tokens",
    }

    def pages(self) -> dict[str, Any]:
        return {"/health": {"status": "healthy", "endpoints": [], "instances": []}, "/live": 200}

    def routes(self) -> dict[str, Any]:
        return {"/tokenize": _tokenize}

    def unserved(self, operation: str) -> web.Response:
        return self.error(404, f"Model not found: {self.model}", "Not Found")

    def error(self, status: int, message: str, kind: str = "Bad Request") -> web.Response:
        return web.json_response({"message": message, "type": kind, "code": status}, status=status)

    async def middle_of_stream(self, response: web.StreamResponse) -> None:
        await response.write(b"event: error\n: the worker left\n\n")


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def _tokenize(request: web.Request) -> web.Response:
    body = await request.json()
    return web.json_response({"count": len(json.dumps(body.get("messages", body.get("prompt")))), "max_model_len": 9})


def _listed(takes: set[str]) -> dict[str, Any]:
    """What FastAPI writes of a route whose body is one of two models."""
    schemas = {"Chat": {"properties": {name: {} for name in takes}}, "Batch": {"properties": {"model": {}}}}
    body = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas]}
    content = {"application/json": {"schema": body}}
    paths = {"/v1/chat/completions": {"post": {"requestBody": {"content": content}}}}
    return {"paths": paths, "components": {"schemas": schemas}}


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


KINDS: dict[str, type[ModelServer]] = {kind.kind: kind for kind in (SGLang, LlamaCpp, TrtLlm, Dynamo)}
ALL_KINDS = KINDS | {"vllm": VLlm}
"""With vLLM, whose other tests run against the real one."""
