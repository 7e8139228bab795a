"""Reads the chunks and whole answers of OpenAI-compatible servers, and makes events of them.

What OpenAI's own servers would not send is evened out: reasoning under two names, finish reasons outside of OpenAI's list,
tool calls without an index or with arguments as an object, deltas that carry nothing.
"""

from typing import Any

import msgspec

from inference.core.events import ABORTED, Event, ToolCallDelta, Usage

FINISH_REASONS = frozenset(("stop", "length", "tool_calls", "content_filter", "function_call"))
_TRANSLATED = {
    "abort": ABORTED,
    "aborted": ABORTED,
    "cancelled": ABORTED,
    "error": ABORTED,
    "repetition": "length",  # vLLM: cut because the text repeats itself
    "max_tokens": "length",
    "eos_token": "stop",  # TGI
    "stop_sequence": "stop",  # TGI
    "end_turn": "stop",
}


_ABSENT = msgspec.Raw()


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    """A delta of a chunk, or a whole message."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Message | None = None
    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: msgspec.Raw = _ABSENT


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    audio_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    reasoning_tokens: int | None = None  # SGLang


class Chunk(msgspec.Struct):
    """A chunk, or a whole answer. `error` is there in place of the others."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw = _ABSENT


_decode = msgspec.json.Decoder(Chunk).decode


def has_error(chunk: Chunk) -> bool:
    """Whether the chunk is an error in place of a part of the answer."""
    return chunk.error is not _ABSENT and bytes(chunk.error) not in (b"", b"null")


def decode(data: bytes) -> Chunk:
    """Raises msgspec.DecodeError where the data is no chunk."""
    return _decode(data)


def events(chunk: Chunk) -> list[Event]:
    """The events of a chunk's choices; none for those that carry nothing. Finish reasons are OpenAI's, or `ABORTED`."""
    made = []
    for choice in chunk.choices:
        delta = choice.delta or choice.message
        finish_reason = choice.finish_reason or ""
        if finish_reason and finish_reason not in FINISH_REASONS:
            finish_reason = _TRANSLATED.get(finish_reason, "stop")
        logprobs = b"" if choice.logprobs is _ABSENT else bytes(choice.logprobs)
        if logprobs == b"null":
            logprobs = b""
        text, reasoning = choice.text or "", ""
        tool_calls: tuple[ToolCallDelta, ...] = ()
        if delta is not None:
            text = delta.content or delta.refusal or ""
            reasoning = delta.reasoning or delta.reasoning_content or ""
            if delta.tool_calls:
                tool_calls = tuple(map(_tool_call, range(len(delta.tool_calls)), delta.tool_calls))
        carries = bool(text or reasoning or tool_calls)
        if carries or finish_reason or logprobs:
            made.append(
                Event(text, choice.index, finish_reason, reasoning, tool_calls, logprobs, None, 1 if carries else 0)
            )
    return made


def usage(chunk: Chunk) -> Usage | None:
    """The server's counts, where the chunk has them."""
    counts = chunk.usage
    if counts is None or counts.prompt_tokens is None:
        return None
    prompt, output = counts.prompt_tokens_details, counts.completion_tokens_details
    reasoning = output.reasoning_tokens if output is not None else counts.reasoning_tokens
    return Usage(
        counts.prompt_tokens,
        counts.completion_tokens or 0,
        _known(prompt.cached_tokens if prompt is not None else None),
        _known(reasoning),
        _known(prompt.audio_tokens if prompt is not None else None),
    )


def _known(count: int | None) -> int:
    return -1 if count is None else count


def _tool_call(place: int, call: _ToolCall) -> ToolCallDelta:
    function = call.function or _Function()
    arguments = function.arguments
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode() if arguments else ""
    return ToolCallDelta(place if call.index is None else call.index, call.id or "", function.name or "", text)
