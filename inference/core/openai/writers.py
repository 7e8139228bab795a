"""Encodes answers and chunks of streams.

Chunks differ in their text alone as a rule, so everything else is encoded once per request.
"""

from array import array
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from inference.contract.plan import Step
from inference.core.events import Choice, Event, ToolCallDelta, WholeAnswer
from inference.core.openai.errors import ApiError

_encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"
COMMENT = b": still here\n\n"
MESSAGE: Mapping[str, object] = {"append": "message", "add_generation_prompt": False, "continue_final_message": True}
PROMPT: Mapping[str, object] = {"append": "prompt"}
"""Where a client appends a cut answer to have it continued, and what it sends besides."""
_TEXT_ALONE = Event()[1:6]


def usage(answer: WholeAnswer) -> dict[str, object]:
    """The counts in OpenAI's shape. Details stand in it where the server gave them."""
    prompt, output = max(0, answer.prompt_tokens), max(0, answer.output_tokens)
    counts: dict[str, object] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if answer.cached_tokens >= 0:
        counts["prompt_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    if answer.reasoning_tokens >= 0:
        counts["completion_tokens_details"] = {"reasoning_tokens": answer.reasoning_tokens}
    return counts


class Format(NamedTuple):
    """How a client wants its answer. With `include_usage` every chunk has a `usage`, and a last one the counts; with
    `continuous_usage` each has the counts so far.
    """

    include_usage: bool = False
    continuous_usage: bool = False
    choices: int = 1
    reasoning_field: str = "reasoning_content"


class Writer:
    """Encodes one answer for its client. `way_on` has what a client sends to have a cut answer continued."""

    way_on: Mapping[str, object] = MESSAGE
    _cut: Mapping[str, object] | None = None

    def cut_at(self, step: Step, can_continue: bool) -> None:
        """A choice that ends with `length` says that the step has cut it, and how a client has it continued: None where the
        model's servers cannot continue a message.
        """
        way_on = self.way_on if can_continue or self.way_on == PROMPT else None
        self._cut = {"degraded": step.name, "max_output_tokens": step.max_output_tokens, "continue": way_on}

    def first(self, prompt_tokens: int) -> bytes:
        """What a stream begins with."""
        raise NotImplementedError

    def event(self, event: Event) -> bytes:
        """The part of a stream that an event makes; empty for one that brings nothing."""
        raise NotImplementedError

    def end(self, answer: WholeAnswer) -> bytes:
        """What a stream ends with."""
        raise NotImplementedError

    def whole(self, answer: WholeAnswer) -> bytes:
        """The body of an answer that is not streamed."""
        raise NotImplementedError

    def error(self, error: ApiError) -> bytes:
        """An error in a stream that has begun. The official client raises it; a clean end would pass for success."""
        return b"data: " + error.body() + b"\n\n"

    def replay(self, answer: WholeAnswer) -> bytes:
        """The whole stream of an answer that is there already."""
        out = [self.first(answer.prompt_tokens)]
        tokens = answer.output_tokens
        for index, choice in enumerate(answer.choices):
            calls = tuple(
                ToolCallDelta(number, call.id, call.name, call.arguments)
                for number, call in enumerate(choice.tool_calls)
            )
            event = Event(choice.text, index, choice.finish_reason, choice.reasoning, calls, choice.logprobs)
            out.append(self.event(event._replace(tokens=tokens)))
            tokens = 0
        out.append(self.end(answer))
        return b"".join(out)


class ChatWriter(Writer):
    """`identity` is unique per answer; `created` is seconds since the epoch."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl-"
    before_text, after_text = (
        b',"choices":[{"index":0,"delta":{"content":',
        b'},"logprobs":null,"finish_reason":null}]',
    )

    def __init__(self, identity: str, created: int, model: str, form: Format) -> None:
        self._id = self.prefix + identity
        self._created = created
        self._model = model
        self._form = form
        self._used: WholeAnswer | None = None  # so far, where every chunk has the counts

    def first(self, prompt_tokens: int) -> bytes:
        """The chunks that begin the choices."""
        head = _encode({"id": self._id, "object": self.chunk_kind, "created": self._created, "model": self._model})
        self._head = b"data: " + head[:-1]
        self._tail = b',"usage":null}\n\n' if self._form.include_usage else b"}\n\n"
        self._before_text = self._head + self.before_text
        self._after_text = self.after_text + self._tail
        if self._form.continuous_usage:
            self._used = WholeAnswer((), prompt_tokens, 0)
        return self._openings()

    def _openings(self) -> bytes:
        delta: dict[str, object] = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self._chunk(index, delta) for index in range(self._form.choices))

    def event(self, event: Event) -> bytes:
        """The chunks of an event; none for one that brings nothing."""
        if event[1:6] == _TEXT_ALONE and self._used is None:  # a token of text, as a rule
            return self._before_text + _encode(event[0]) + self._after_text if event[0] else b""
        text, index, finish_reason, reasoning, tool_calls, logprobs, _, tokens, _ = event
        if self._used is not None:
            self._used = msgspec.structs.replace(self._used, output_tokens=self._used.output_tokens + tokens)
        out = b""
        if text or reasoning or tool_calls or logprobs:
            out = self._chunk(index, self._delta(text, reasoning, tool_calls), logprobs)
        if finish_reason:
            out += self._chunk(index, self._delta("", "", ()), finish_reason=finish_reason)
        return out

    def end(self, answer: WholeAnswer) -> bytes:
        """The chunk with usage if it is wanted, and the end of the stream."""
        if not self._form.include_usage:
            return DONE
        return self._head + b',"choices":[],"usage":' + _encode(usage(answer)) + b"}\n\n" + DONE

    def whole(self, answer: WholeAnswer) -> bytes:
        body: dict[str, object] = {
            "id": self._id,
            "object": self.kind,
            "created": self._created,
            "model": self._model,
            "choices": [self._choice(index, choice) for index, choice in enumerate(answer.choices)],
            "usage": usage(answer),
        }
        if self._cut is not None and any(choice.finish_reason == "length" for choice in answer.choices):
            body["weir"] = self._cut
        return _encode(body)

    def _delta(self, text: str, reasoning: str, tool_calls: tuple[ToolCallDelta, ...]) -> dict[str, object]:
        """What is new in a choice."""
        delta: dict[str, object] = {}
        if reasoning:
            delta[self._form.reasoning_field] = reasoning
        if text:
            delta["content"] = text
        if tool_calls:
            delta["tool_calls"] = [_call_delta(call) for call in tool_calls]
        return delta

    def _chunk(self, index: int, delta: dict[str, object], logprobs: bytes = b"", finish_reason: str = "") -> bytes:
        return self._finished_chunk({"index": index, "delta": delta}, logprobs, finish_reason)

    def _finished_chunk(self, choice: dict[str, Any], logprobs: bytes, finish_reason: str) -> bytes:
        choice["logprobs"] = msgspec.Raw(logprobs) if logprobs else None
        choice["finish_reason"] = finish_reason or None
        tail = self._tail if self._used is None else b',"usage":' + _encode(usage(self._used)) + b"}\n\n"
        if self._cut is not None and finish_reason == "length":
            tail = b',"weir":' + _encode(self._cut) + tail
        return self._head + b',"choices":[' + _encode(choice) + b"]" + tail

    def _choice(self, index: int, choice: Choice) -> dict[str, object]:
        message: dict[str, object] = {
            "role": "assistant",
            "content": choice.text if choice.text or not choice.tool_calls else None,
            "refusal": None,
            "annotations": [],
        }
        if choice.reasoning:
            message[self._form.reasoning_field] = choice.reasoning
        if choice.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in choice.tool_calls
            ]
        return {"index": index, "message": message} | _end(choice)


class CompletionWriter(ChatWriter):
    kind = chunk_kind = "text_completion"
    prefix = "cmpl-"
    way_on = PROMPT
    before_text, after_text = b',"choices":[{"index":0,"text":', b',"logprobs":null,"finish_reason":null}]'

    def _openings(self) -> bytes:
        return b""

    def _chunk(self, index: int, delta: dict[str, object], logprobs: bytes = b"", finish_reason: str = "") -> bytes:
        return self._finished_chunk({"index": index, "text": delta.get("content", "")}, logprobs, finish_reason)

    def _choice(self, index: int, choice: Choice) -> dict[str, object]:
        return {"index": index, "text": choice.text} | _end(choice)


def _end(choice: Choice) -> dict[str, object]:
    logprobs = msgspec.Raw(choice.logprobs) if choice.logprobs else None
    return {"logprobs": logprobs, "finish_reason": choice.finish_reason}


def _call_delta(call: ToolCallDelta) -> dict[str, object]:
    """The id, type and name come once, with the call's first part."""
    function: dict[str, str] = {"name": call.name} if call.name else {}
    function["arguments"] = call.arguments
    delta: dict[str, object] = {"index": call.number}
    if call.id:
        delta |= {"id": call.id, "type": "function"}
    return delta | {"function": function}


class EmbeddingWriter(Writer):
    """Of /v1/embeddings. `base64` gives each vector as the text of its little-endian 32-bit floats, which the official client asks for."""

    def __init__(self, model: str, encoding_format: Literal["float", "base64"]) -> None:
        self._model = model
        self._base64 = encoding_format == "base64"

    def whole(self, answer: WholeAnswer) -> bytes:
        tokens = max(0, answer.prompt_tokens)
        return _encode(
            {
                "object": "list",
                "model": self._model,
                "data": [
                    {"object": "embedding", "index": index, "embedding": self._vector(vector)}
                    for index, vector in enumerate(answer.vectors)
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    def _vector(self, vector: bytes) -> str | list[float]:
        return b64encode(vector).decode() if self._base64 else array("f", vector).tolist()


def models(cards: Mapping[str, Mapping[str, Any]]) -> bytes:
    """By the models' names, what their servers say of them."""
    return _encode({"object": "list", "data": [_model(name, card) for name, card in cards.items()]})


def model(name: str, card: Mapping[str, Any]) -> bytes:
    return _encode(_model(name, card))


_SERVERS_OWN = frozenset(("id", "object", "owned_by", "root", "parent", "aliases"))
"""Of a server's list of models: its own names of models and files, and itself."""


def _model(name: str, card: Mapping[str, Any]) -> dict[str, object]:
    said = {member: value for member, value in card.items() if member not in _SERVERS_OWN}
    return {"id": name, "object": "model", "created": 0, "owned_by": "weir", **said}
