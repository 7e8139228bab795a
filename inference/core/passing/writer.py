"""Writes answers that are handed on as they came, and what the gateway itself has to say in them."""

from typing import Any

import msgspec

from inference.contract.lenient import UNREADABLE
from inference.core.events import Event, WholeAnswer
from inference.core.openai.errors import ApiError
from inference.core.openai.writers import MESSAGE, PROMPT, Writer

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_ANTHROPICS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Anthropic's types of errors, by status."""


class PassWriter(Writer):
    """`path` is the URL that was asked for: errors in its streams have its shape."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.way_on = PROMPT if path == "/v1/completions" else MESSAGE

    def first(self, prompt_tokens: int) -> bytes:
        return b""

    def event(self, event: Event) -> bytes:
        return event.raw if self._cut is None else self._marked(event.raw, event.finish_reason)

    def end(self, answer: WholeAnswer) -> bytes:
        return b""

    def whole(self, answer: WholeAnswer) -> bytes:
        assert answer.handed is not None
        return self._marked(answer.handed.body, answer.handed.finish_reason)

    def replay(self, answer: WholeAnswer) -> bytes:
        assert answer.handed is not None
        return answer.handed.body

    def error(self, error: ApiError) -> bytes:
        return self.server_error(error_body(self._path, error) if self._path == "/v1/messages" else error.body())

    def server_error(self, body: bytes) -> bytes:
        """A server's own error as an event, where the stream has begun; empty where clients would not know it as one."""
        try:
            document = _decode(body)
        except UNREADABLE:
            return b""
        error = document.get("error")
        if not isinstance(error, dict):
            return b""
        if self._path == "/v1/responses":
            said = {name: error.get(name) for name in ("code", "message", "param")}
            body = _encode({"type": "error", **said, "sequence_number": 0, "error": error})
        name = b"event: error\n" if self._path in ("/v1/responses", "/v1/messages") else b""
        return b"".join((name, b"data: ", b"\ndata: ".join(body.splitlines()), b"\n\n"))

    def _marked(self, raw: bytes, finish_reason: str) -> bytes:
        """An answer, or the event with its end, that a step of a ladder has cut."""
        end = raw.rfind(b"}") if self._cut is not None and finish_reason == "length" else -1
        return raw if end < 0 else b"".join((raw[:end], b',"weir":', _encode(self._cut), raw[end:]))


def error_body(path: str, error: ApiError) -> bytes:
    """An error as the client of the URL reads it: Anthropic's, or OpenAI's."""
    if path != "/v1/messages" and not path.startswith("/v1/messages/"):
        return error.body()
    said = msgspec.json.decode(error.body())["error"]
    kind = _ANTHROPICS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return _encode({"type": "error", "error": said | {"type": kind}})
