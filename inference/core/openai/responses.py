"""Encodes answers and chunks of streams.

Chunks differ in their text alone, so everything else is encoded once per request.
"""

import msgspec

_encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"
COMMENT = b": still here\n\n"


def usage(prompt_tokens: int, output_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt_tokens + output_tokens,
    }


class ChatWriter:
    """`identity` is unique per answer; `created` is seconds since the epoch. With `include_usage`, every chunk has a
    `usage`.
    """

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl-"

    def __init__(self, identity: str, created: int, model: str, include_usage: bool) -> None:
        self._id = self.prefix + identity
        self._created = created
        self._model = model
        self._include_usage = include_usage
        head = _encode({"id": self._id, "object": self.chunk_kind, "created": created, "model": model})
        self._head = b"data: " + head[:-1]
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._before_text = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._after_text = b'},"logprobs":null,"finish_reason":null}]' + self._tail

    def first(self) -> bytes:
        delta = b',"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null}'
        return self._head + delta + b',"logprobs":null,"finish_reason":null}]' + self._tail

    def text(self, text: str) -> bytes:
        return self._before_text + _encode(text) + self._after_text

    def last(self, finish_reason: str, prompt_tokens: int, output_tokens: int) -> bytes:
        """The chunk with the finish reason, the one with usage if it is wanted, and the end of the stream."""
        reason = _encode(finish_reason)
        end = (
            self._head
            + b',"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":'
            + reason
            + b"}]"
            + self._tail
        )
        return end + self._usage_chunk(prompt_tokens, output_tokens) + DONE

    def whole(self, text: str, finish_reason: str, prompt_tokens: int, output_tokens: int) -> bytes:
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        return self._whole(choice, prompt_tokens, output_tokens)

    def _whole(self, choice: dict[str, object], prompt_tokens: int, output_tokens: int) -> bytes:
        return _encode(
            {
                "id": self._id,
                "object": self.kind,
                "created": self._created,
                "model": self._model,
                "choices": [choice],
                "usage": usage(prompt_tokens, output_tokens),
            }
        )

    def _usage_chunk(self, prompt_tokens: int, output_tokens: int) -> bytes:
        if not self._include_usage:
            return b""
        return self._head + b',"choices":[],"usage":' + _encode(usage(prompt_tokens, output_tokens)) + b"}\n\n"


class CompletionWriter(ChatWriter):
    kind = chunk_kind = "text_completion"
    prefix = "cmpl-"

    def __init__(self, identity: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__(identity, created, model, include_usage)
        self._before_text = self._head + b',"choices":[{"index":0,"text":'
        self._after_text = b',"logprobs":null,"finish_reason":null}]' + self._tail

    def first(self) -> bytes:
        return b""

    def last(self, finish_reason: str, prompt_tokens: int, output_tokens: int) -> bytes:
        reason = _encode(finish_reason)
        end = (
            self._head
            + b',"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":'
            + reason
            + b"}]"
            + self._tail
        )
        return end + self._usage_chunk(prompt_tokens, output_tokens) + DONE

    def whole(self, text: str, finish_reason: str, prompt_tokens: int, output_tokens: int) -> bytes:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
        return self._whole(choice, prompt_tokens, output_tokens)


def error_event(body: bytes) -> bytes:
    """An error in a stream that has begun. The official client raises it; a clean end without [DONE] would pass for
    success.
    """
    return b"data: " + body + b"\n\n"


def models(names: list[str]) -> bytes:
    return _encode({"object": "list", "data": [_model(name) for name in names]})


def model(name: str) -> bytes:
    return _encode(_model(name))


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "weir"}
