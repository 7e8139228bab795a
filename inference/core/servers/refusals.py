"""Reads what a model server says when it refuses or fails a request. The shapes of SERVERS' bodies differ: vLLM and
llama.cpp nest `error`, SGLang, trtllm-serve and Dynamo are flat, TGI and trtllm-serve have text under `error`, FastAPI has
`detail`.
"""

import re
from typing import Any, Literal, NamedTuple

import msgspec

from inference.contract.lenient import UNREADABLE
from inference.core.backend_errors import MAX_MESSAGE_CHARS

Kind = Literal["invalid", "unserved", "missing", "busy", "failed"]
"""`invalid`: the client's request is wrong. `unserved`: the model is not for such requests. `missing`: there is no such route
or no such model, and the answer does not say which. `busy`: the server is full or loading, which is no fault. `failed`: all
else.
"""

_BUSY = frozenset((429, 503, 529))  # 529: Dynamo, full (lib/llm/src/http/service/error.rs)
# Of the others below 500, which say something of the server, its account or the moment. 424: a failed shard of TGI.
_NOT_THE_REQUEST = frozenset((401, 402, 403, 404, 405, 407, 408, 409, 421, 423, 424, 425, 499))
_INVALID = frozenset(range(400, 500)) - _BUSY - _NOT_THE_REQUEST
_MISSING = frozenset((404, 405))
_UNSERVED = frozenset((400, 403, 404, 405, 501))
# Of vLLM (vllm/entrypoints/{pooling/embed,openai/chat_completion,openai/completion}/api_router.py), llama.cpp
# (tools/server/server-context.cpp) and Ollama; of SGLang (python/sglang/srt/managers/tokenizer_manager.py); of OpenAI.
_OTHER_PURPOSE = re.compile(
    r"does not support (?:embeddings?|(?:chat )?completions|chat|generate)(?= API\b|[.\"']|$)"
    r"|does not appear to be an embedding model|is not a chat model|not allowed to generate embeddings from this model",
    re.I,
)
# From here on a text is the server's own affair: a traceback, or a place in its files.
_TRACE = re.compile(
    r"Traceback \(most recent call last\)|File \"[^\"]*\", line \d+|\n\s*at \S+\(|(?:/[\w.-]+){2,}\.(?:py|cpp|cc|rs|h)\b"
)
# trtllm-serve answers 400 to every exception, also of its own (tensorrt_llm/serve/openai_server.py).
_OWN_FAULT = re.compile(
    r"CppExecutor|RequestError|RuntimeError|AssertionError|CUDA|cuda|NCCL|\[TensorRT-LLM\]|std::|Internal", re.ASCII
)
_CONTEXT = re.compile(r"context (?:length|size|window)|max_model_len|exceed_context_size|longer than the model", re.I)
_OUTPUT = re.compile(r"max_(?:completion_)?tokens")
# Types and codes of errors in streams, which have no status of their own: of Anthropic, OpenAI, and text-generation-inference
# (router/src/infer/mod.rs).
_BUSY_CODES = frozenset(("overloaded_error", "rate_limit_error", "rate_limit_exceeded", "overloaded"))
_INVALID_CODES = frozenset(("invalid_request_error", "invalid_prompt", "context_length_exceeded", "validation"))
_CODE = re.compile(r"[a-z][a-z0-9_]{2,60}")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Refusal(NamedTuple):
    """`message` may be shown to a client; it is empty where nothing of the body may be. `what` is how it was refused, in our
    words, `said` the server's. `param` is the parameter that is wrong, `code` is OpenAI's.
    """

    kind: Kind
    message: str
    param: str | None
    code: str
    what: str
    said: str


def read(status: int, body: bytes, *, blames_client_for_all: bool = False) -> Refusal:
    """What an answer with an error status means. `blames_client_for_all` is for servers that answer 400 to faults of
    their own.
    """
    said = _said(body)
    kind: Kind = "busy" if status in _BUSY else "invalid" if status in _INVALID else "failed"
    if status in _UNSERVED and _OTHER_PURPOSE.search(said.message):
        kind = "unserved"
    elif status in _MISSING and body.lstrip().startswith(b"{"):  # a proxy's page says nothing of the server
        kind = "missing"
    if kind == "invalid" and blames_client_for_all and _OWN_FAULT.search(said.message):
        kind = "failed"
    return _refusal(kind, said, f"HTTP {status}")


def read_event(data: bytes) -> Refusal:
    """What an error means whose status was 200, in a stream as a rule: the code within says which it would have been."""
    said = _said(data)
    status, code = said.status, said.code if not said.status else ""
    busy, invalid = status in _BUSY or code in _BUSY_CODES, status in _INVALID or code in _INVALID_CODES
    return _refusal("busy" if busy else "invalid" if invalid else "failed", said, "an error with status 200")


class _Said(NamedTuple):
    message: str
    param: str | None = None
    code: str = ""
    status: int = 0


def _refusal(kind: Kind, said: _Said, what: str) -> Refusal:
    shown = _cut(said.message) if kind == "invalid" else ""
    code = said.code if _CODE.fullmatch(said.code) else ""
    if kind == "invalid" and _CONTEXT.search(said.message) and not _OUTPUT.search(said.param or ""):
        code = "context_length_exceeded"
    return Refusal(
        kind,
        shown or ("The model server refused this request as invalid." if kind == "invalid" else ""),
        said.param if said.param and len(said.param) <= 100 else None,
        code or "invalid_value",
        what,
        _one_line(said.message)[:MAX_MESSAGE_CHARS],
    )


def _said(body: bytes) -> _Said:
    """The first of the known shapes that the body has."""
    try:
        document = _decode(body)
    except UNREADABLE:
        text = body[: 4 * MAX_MESSAGE_CHARS].decode("utf-8", "replace").strip()
        return _Said("" if text.startswith("<") else text)  # a proxy's page says nothing
    error, response = document.get("error", document), document.get("response")
    if error is document and isinstance(response, dict):  # an event of OpenAI's Responses
        error = response.get("error")
    if isinstance(error, str):
        return _Said(error, code=_text(document.get("error_type")))
    if not isinstance(error, dict):
        return _Said("")
    message = error.get("message")
    if message is None:
        message = error.get("detail")
    if isinstance(message, list):  # FastAPI: one object per field
        return _of_fields(message)
    code = error.get("code")
    param = error.get("param")
    return _Said(
        _text(message),
        param if isinstance(param, str) else None,
        code if isinstance(code, str) else _text(error.get("type")),
        code if isinstance(code, int) and not isinstance(code, bool) else 0,
    )


def _of_fields(faults: list[Any]) -> _Said:
    texts, param = [], None
    for fault in faults:
        if isinstance(fault, dict):
            place = fault.get("loc")
            where = ".".join(map(str, place[1:])) if isinstance(place, list) else ""
            param = param or where or None
            texts.append(f"{where}: {_text(fault.get('msg'))}" if where else _text(fault.get("msg")))
    return _Said("; ".join(texts), param)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _cut(message: str) -> str:
    trace = _TRACE.search(message)
    return _one_line(message[: trace.start()] if trace else message)[:MAX_MESSAGE_CHARS].rstrip(" :;(,'\"")


def _one_line(text: str) -> str:
    return " ".join(text.split())
