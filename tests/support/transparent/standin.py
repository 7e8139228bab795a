"""A server that records what it gets, byte for byte, and answers as vLLM does: with all the fields that it may send, and always the
same to the same request. It fails where a body asks it to.

The fields are those of vllm/entrypoints/openai/{chat_completion,completion,engine}/protocol.py.
"""

import asyncio
import json
import random
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from aiohttp import web

from tests.support.http_server import LoopServer

MODEL = "Qwen/Qwen3-8B"
FAULT = "weir_fault"
"""A member of the body: a status, or `stream` for an error in the middle of one."""
_ADDED = ("stream_options", "priority", "model")  # what the gateway may change decides nothing
_SPACING = ((",", ":"), (", ", ": "))


class Got(NamedTuple):
    """A request as it came."""

    path: str
    content_type: str
    body: bytes
    query: str = ""


class Recorder(LoopServer):
    """At `url`. `got` are the requests, by the number that each carries in `user` or in its body."""

    path = "/v1"

    def __init__(self) -> None:
        self.got: list[Got] = []

    def handlers(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.get("/version", self._version),
            web.get("/health", self._healthy),
            web.post("/{path:.*}", self._answer),
        ]

    async def _models(self, _: web.Request) -> web.Response:
        card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "root": MODEL, "parent": None}
        return web.json_response({"object": "list", "data": [card | {"max_model_len": 32_768, "permission": []}]})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def _healthy(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        kind = request.headers.get("Content-Type", "").split(";")[0]
        self.got.append(Got(request.path, kind, body, request.query_string))
        query = _read(body) if kind == "application/json" else {}
        same = json.dumps({name: value for name, value in query.items() if name not in _ADDED}, sort_keys=True)
        chance = random.Random(zlib.crc32(same.encode() if query else body))
        status = query.get(FAULT)
        if isinstance(status, int):
            error = {"message": "no: \u00fc\n<|x|>", "type": "BadRequestError", "param": "temperature", "code": status}
            return web.Response(body=_dump(chance, {"error": error}), status=status, content_type="application/json")
        if kind == "multipart/form-data" and chance.random() < 0.5:
            return web.Response(text="1\n00:00:00,000 --> 00:00:01,500\nA weir.\n")
        if query.get("stream") is not True:
            return web.Response(
                body=_dump(chance, _whole(request.path, query, chance)), content_type="application/json"
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for part in _cut(chance, b"".join(_events(request.path, query, chance))):
            await response.write(part)
            await asyncio.sleep(0)
        return response


def _read(body: bytes) -> dict[str, Any]:
    read = json.loads(body)
    return read if isinstance(read, dict) else {}


def _dump(chance: random.Random, document: Any) -> bytes:
    return json.dumps(document, separators=chance.choice(_SPACING), ensure_ascii=chance.random() < 0.5).encode()


def _cut(chance: random.Random, whole: bytes) -> Iterator[bytes]:
    """Servers' writes are not events: they come in any parts."""
    while whole:
        size = chance.choice((len(whole), 1 + int(chance.expovariate(1 / 300))))
        yield whole[:size]
        whole = whole[size:]


def _words(chance: random.Random) -> list[str]:
    return [
        chance.choice(("A", " weir", '"', "\\", "\n", " \u00e9", "<|im_end|>", "\U0001f30a", "{}", "data: x"))
        for _ in range(9)
    ]


def _usage(chance: random.Random) -> dict[str, Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16, "prompt_tokens_details": None}
    return usage | ({"prompt_tokens_details": {"cached_tokens": 4}} if chance.random() < 0.5 else {})


def _choices(query: dict[str, Any]) -> int:
    n = query.get("n")
    return n if type(n) is int and 0 < n < 5 else 1


def _whole(path: str, query: dict[str, Any], chance: random.Random) -> Any:
    text, identity = "".join(_words(chance)), f"{chance.randrange(1 << 40):x}"
    head = {"id": f"chatcmpl-{identity}", "created": 1, "model": query.get("model", MODEL)}
    more = {
        "system_fingerprint": chance.choice((None, "fp_1")), "service_tier": chance.choice((None, "default")),
        "prompt_logprobs": chance.choice((None, [None, {"9": {"logprob": -0.5, "rank": 1, "decoded_token": "\u00fc"}}])),
        "kv_transfer_params": None, "prompt_token_ids": chance.choice((None, [1, 2])), "a_new_field": {"model": "other"},
    }  # fmt: skip
    if path == "/v1/chat/completions":
        message = {
            "role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None, "function_call": None,
            "tool_calls": [], "reasoning": chance.choice((None, "hm")), "citations": ["https://a.example"],
        }  # fmt: skip
        choice = {
            "message": message,
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": 151_645,
            "token_ids": None,
        }
        choices = [{"index": index, **choice} for index in range(_choices(query))]
        return {**head, "object": "chat.completion", "choices": choices, "usage": _usage(chance), **more}
    if path == "/v1/completions":
        choice = {
            "text": text,
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
            "prompt_logprobs": None,
        }
        choices = [{"index": index, **choice} for index in range(_choices(query))]
        return {**head, "object": "text_completion", "choices": choices, "usage": _usage(chance), **more}
    if path == "/v1/messages":
        usage = {"input_tokens": 7, "output_tokens": 9, "cache_read_input_tokens": 2}
        content = [{"type": "text", "text": text}]
        return {"id": identity, "type": "message", "role": "assistant", "model": MODEL, "content": content,
                "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}  # fmt: skip
    if path == "/v1/responses":
        return _response(identity, text, "completed", chance)
    if path == "/v1/embeddings":
        data = [{"object": "embedding", "index": 0, "embedding": [0.25, -1e-9, 3]}]
        return {
            "id": identity,
            "object": "list",
            "created": 1,
            "model": MODEL,
            "data": data,
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }
    return {
        "id": identity,
        "model": MODEL,
        "results": [{"index": 0, "relevance_score": 0.75}],
        "text": text,
        "tokens": [1],
        "count": 1,
    }


def _response(identity: str, text: str, status: str, chance: random.Random) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": None}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}
    usage = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9,
             "output_tokens_details": {"reasoning_tokens": 0, "tool_output_tokens": 0}, "total_tokens": 16}  # fmt: skip
    return {
        "id": f"resp_{identity}", "created_at": 1, "object": "response", "model": MODEL, "status": status, "output": [item],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage, "background": False,
        "metadata": {"model": MODEL}, "vllm_only": chance.choice((None, 1)),
    }  # fmt: skip


def _events(path: str, query: dict[str, Any], chance: random.Random) -> Iterator[bytes]:
    words, identity = _words(chance), f"{chance.randrange(1 << 40):x}"
    if path == "/v1/messages":
        yield from _named(_anthropic(words, identity), chance)
    elif path == "/v1/responses":
        yield from _named(_responses(words, identity, chance), chance)
    else:
        yield from _chunks(path, query, words, identity, chance)


def _named(events: Iterator[dict[str, Any]], chance: random.Random) -> Iterator[bytes]:
    for event in events:
        yield f"event: {event['type']}\ndata: ".encode() + _dump(chance, event) + b"\n\n"


def _anthropic(words: list[str], identity: str) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 7, "output_tokens": 0}
    message = {"id": identity, "type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": usage}
    yield {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "ping"}
    for word in words:
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    }
    yield {"type": "message_stop"}


def _responses(words: list[str], identity: str, chance: random.Random) -> Iterator[dict[str, Any]]:
    numbers = iter(range(99))
    begun = _response(identity, "", "in_progress", chance) | {"output": [], "usage": None}
    yield {"type": "response.created", "sequence_number": next(numbers), "response": begun}
    for word in words:
        yield {"type": "response.output_text.delta", "sequence_number": next(numbers), "item_id": "msg_1", "output_index": 0,
               "content_index": 0, "delta": word, "logprobs": []}  # fmt: skip
    whole = _response(identity, "".join(words), "completed", chance)
    yield {"type": "response.completed", "sequence_number": next(numbers), "response": whole}


def _chunks(
    path: str, query: dict[str, Any], words: list[str], identity: str, chance: random.Random
) -> Iterator[bytes]:
    chat, spacing = path == "/v1/chat/completions", chance.choice(_SPACING)
    options = query.get("stream_options") or {}
    counts = options.get("include_usage") is True
    head: dict[str, Any] = {"id": f"cmpl-{identity}", "object": "chat.completion.chunk" if chat else "text_completion", "created": 1,
                            "model": query.get("model", MODEL)}  # fmt: skip
    breaks = chance.choice(("\n\n", "\n\n", "\r\n\r\n"))
    fails, chunk_extra = (
        query.get(FAULT) == "stream",
        chance.choice(({}, {"system_fingerprint": "fp_1"}, {"prompt_token_ids": [1]})),
    )

    def event(choices: list[Any], **more: Any) -> bytes:
        return f"data: {json.dumps({**head, 'choices': choices, **chunk_extra, **more}, separators=spacing)}{breaks}".encode()

    def choice(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        carried: dict[str, Any] = {"delta": {"content": text} if text else {}} if chat else {"text": text}
        extra = {"stop_reason": None, "token_ids": [3]} if chance.random() < 0.2 else {}
        return {"index": index, **carried, "logprobs": None, "finish_reason": reason, **extra}

    continuous = {"usage": _usage(chance)} if counts and options.get("continuous_usage_stats") else {}
    for index in range(_choices(query)):
        if chat:
            opening = {"role": "assistant", "content": "", "reasoning_content": None}
            yield event([{"index": index, "delta": opening, "logprobs": None, "finish_reason": None}], **continuous)
        for number, word in enumerate(words):
            yield event([choice(index, word)], **continuous)
            if fails and number == 3:
                yield b'data: {"error": {"message": "EngineDeadError", "type": "InternalServerError", "code": 500}}\n\ndata: [DONE]\n\n'
                return
            if chance.random() < 0.1:
                yield b": keep-alive\n\n"
    for index in range(_choices(query)):
        yield event([choice(index, "", "stop") | {"stop_reason": 7}], **continuous)
    if counts:
        yield event([], usage=_usage(chance))
    yield b"data: [DONE]\n\n"
