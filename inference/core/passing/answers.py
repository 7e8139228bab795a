"""Reads an answer while it passes: its tokens, why it ends, and what the server counts. Nothing of it is made anew."""

from typing import Any, NamedTuple, Protocol

import msgspec

from inference.contract.lenient import UNREADABLE, reading
from inference.core.events import ABORTED, Usage
from inference.core.passing.blocks import Block
from inference.core.passing.embeddings import without_items

_ABORTED = frozenset(("abort", "aborted", "cancelled", "error"))
MAX_COUNT = (1 << 31) - 1
"""Of tokens: a larger number is no count."""


class Seen(NamedTuple):
    """What an event of a stream says. `counts_alone`: it brings counts and nothing else. `error`: it is one, in place of a
    part of the answer. `begins`: the model is at its answer, such as with a search, also where it brings no token.
    """

    tokens: int = 0
    finish_reason: str = ""
    usage: Usage | None = None
    counts_alone: bool = False
    error: bool = False
    begins: bool = False


NOTHING, _TOKEN = Seen(), Seen(1)


class Reader(Protocol):
    """Reads one answer. `generates`: it has output tokens. `whole`: what has come of the stream is an answer. `settled`: no more than
    counts can follow. `ended`: nothing comes after this.
    """

    generates: bool

    @property
    def whole(self) -> bool: ...

    @property
    def settled(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    def see(self, block: Block) -> Seen: ...

    def see_all(self, body: bytes) -> Seen:
        """An answer that does not come as a stream."""


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_tokens: int | None = None


class _Usage(msgspec.Struct):
    """OpenAI's names, those of its Responses, and Anthropic's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    reasoning_tokens: int | None = None  # SGLang
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def input(self) -> int | None:
        """Of the prompt. Anthropic's `input_tokens` are those alone that the prompt's cache has nothing to do with."""
        if self.input_tokens is None:
            return None
        return self.input_tokens + (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)


_decode_usage = msgspec.json.Decoder(_Usage | None, strict=False).decode
_NULL = msgspec.Raw(b"null")


def _usage_of(said: msgspec.Raw) -> _Usage | None:
    """None also where its counts are no numbers: what else comes with them still counts."""
    try:
        usage: _Usage | None = _decode_usage(said)
    except UNREADABLE:
        return None
    return usage


def _counts(usage: _Usage | None, *, of_prompt_alone: bool = False) -> Usage | None:
    if usage is None:
        return None
    prompt, output = (
        _first(usage.prompt_tokens, usage.input, usage.total_tokens if of_prompt_alone else None),
        _first(usage.completion_tokens, usage.output_tokens),
    )
    if prompt is None and output is None:
        return None
    of_prompt = usage.prompt_tokens_details or usage.input_tokens_details
    of_output = usage.completion_tokens_details or usage.output_tokens_details
    cached = of_prompt.cached_tokens if of_prompt is not None else usage.cache_read_input_tokens
    reasoning = of_output.reasoning_tokens if of_output is not None else usage.reasoning_tokens
    audio = of_prompt.audio_tokens if of_prompt is not None else None
    counts = (prompt, output, cached, reasoning, audio)
    return Usage(*(-1 if count is None or not 0 <= count <= MAX_COUNT else count for count in counts))


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


class _Choice(msgspec.Struct):
    index: int | None = 0
    delta: dict[str, Any] | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = _NULL
    error: Any = None


_read_chunk = reading(_Chunk)
_BRINGS_NOTHING = frozenset(("role",))


class ChoicesReader:
    """Of chat and text completions of `choices`. Chunks that differ in their text alone, as nearly all do, are compared and not
    read: what lies between a known beginning and a known end, and has no quote, is a text.
    """

    __slots__ = ("_after", "_before", "_choices", "_ended", "_open", "ended")
    generates = True

    def __init__(self, choices: int) -> None:
        self.ended = False
        self._choices = choices
        self._open: set[int] = set()  # choices that have begun and not ended
        self._ended: set[int] = set()
        self._before = self._after = b""  # of a chunk that brings one token's text

    @property
    def whole(self) -> bool:
        return bool(self._ended) and not self._open

    @property
    def settled(self) -> bool:
        return not self._open and len(self._ended) >= self._choices

    def see(self, block: Block) -> Seen:
        data, before = block.data, self._before
        if before and data.startswith(before) and data.endswith(self._after):
            text = data[len(before) : len(data) - len(self._after)]
            if text and text.find(b'"') < 0:
                return _TOKEN
        if data == b"[DONE]":
            self.ended = True
            return NOTHING
        if block.name == "error":
            return Seen(error=True)
        if not data:
            return NOTHING
        try:
            chunk = _read_chunk(data)
        except ValueError:
            return NOTHING  # the client may know what it is
        return self._read(chunk, data)

    def see_all(self, body: bytes) -> Seen:
        try:
            chunk = _read_chunk(body)
        except ValueError:
            return _unread(body)
        reasons = [choice.finish_reason for choice in chunk.choices or () if choice.finish_reason]
        reason = ABORTED if _ABORTED.intersection(reasons) else next(iter(reasons), "")
        failed = bool(chunk.error and not chunk.choices)
        return Seen(0, reason, _counts(_usage_of(chunk.usage)), error=failed)

    def _read(self, chunk: _Chunk, data: bytes) -> Seen:
        if chunk.error:
            return Seen(error=True)
        tokens, reason = 0, ""
        for choice in chunk.choices or ():
            brought = _brings(choice)
            tokens += brought
            index = choice.index or 0
            if choice.finish_reason:
                reason = ABORTED if choice.finish_reason in _ABORTED else choice.finish_reason
                self._open.discard(index)
                self._ended.add(index)
            elif index not in self._ended:
                self._open.add(index)
        usage = _counts(_usage_of(chunk.usage))
        if tokens == 1 and not reason and usage is None and len(chunk.choices or ()) == 1:
            self._learn(data)
        return Seen(tokens, reason, usage, not chunk.choices and bytes(chunk.usage)[:1] == b"{")

    def _learn(self, data: bytes) -> None:
        """Keep the beginning and the end of a chunk, if its text stands in it once and as it is."""
        for mark in (b'"content":"', b'"text":"', b'"content": "', b'"text": "'):
            at = data.find(mark)
            if at >= 0 and data.find(mark, at + 1) < 0:
                start = at + len(mark)
                end = data.find(b'"', start)
                text = data[start:end]
                if text and b"\\" not in text:
                    self._before, self._after = data[:start], data[end:]
                return


def _brings(choice: _Choice) -> int:
    """Whether a choice of a chunk has something of the answer."""
    if choice.text:
        return 1
    delta = choice.delta
    return 1 if delta and any(value for name, value in delta.items() if name not in _BRINGS_NOTHING) else 0


def _unread(body: bytes) -> Seen:
    """Of what cannot be read: a proxy's page is no answer, and anything else may be one for its client."""
    return Seen(error=True) if body.lstrip().startswith(b"<") else NOTHING


class OpaqueReader:
    """Of an answer of which the gateway knows no more than that it may have counts."""

    whole, settled, ended = True, False, False

    def __init__(self, *, generates: bool = False) -> None:
        self.generates = generates

    def see(self, block: Block) -> Seen:
        if not block.data or block.data == b"[DONE]":
            return NOTHING
        return Seen(1, usage=self.see_all(block.data).usage) if block.data.find(b'"usage"') >= 0 else _TOKEN

    def see_all(self, body: bytes) -> Seen:
        try:
            answer = _read_opaque(body)
        except ValueError:
            return NOTHING
        usage = _counts(_usage_of(answer.usage), of_prompt_alone=True)  # of a ranking: there is no output
        counted = usage._replace(output_tokens=max(0, usage.output_tokens)) if usage else None
        return Seen(usage=counted, error=bool(answer.error))


class EmbeddingsReader(OpaqueReader):
    """Of embeddings, which may have megabytes: their counts are read, and not they themselves."""

    def see_all(self, body: bytes) -> Seen:
        short = without_items(body)
        return super().see_all(body if short is None else short[0])


class _Opaque(msgspec.Struct):
    usage: msgspec.Raw = _NULL
    error: Any = None


_read_opaque = reading(_Opaque)


class _Response(msgspec.Struct):
    status: str | None = None
    usage: msgspec.Raw = _NULL
    error: Any = None
    output: msgspec.Raw = _NULL
    stop_reason: str | None = None  # Anthropic's message


class _Event(msgspec.Struct):
    type: str = ""
    response: _Response | None = None
    message: _Response | None = None
    delta: Any = None
    usage: msgspec.Raw = _NULL
    error: Any = None


_read_event = reading(_Event)
_read_response = reading(_Response)
_ENDS = {
    "response.completed": "stop",
    "response.incomplete": "length",
    "message_stop": "",
}
_REASONS = {
    "completed": "stop",
    "incomplete": "length",
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    **dict.fromkeys(("queued", "in_progress", "cancelled", "failed"), ""),
}
_WAITS = frozenset(("response.created", "response.queued", "response.in_progress"))
_FAILS = frozenset(("response.failed", "error"))
_NO_OUTPUT = (b"null", b"[]")  # else rules of the guard have something to see


class EventsReader:
    """Of OpenAI's Responses and of Anthropic's Messages, whose events have a type."""

    __slots__ = ("_usage", "ended", "whole")
    generates = True

    def __init__(self) -> None:
        self.whole = self.ended = False
        self._usage = _Usage()

    @property
    def settled(self) -> bool:
        return self.whole

    def see(self, block: Block) -> Seen:
        if not block.data or block.data == b"[DONE]":
            self.ended |= bool(block.data)
            return NOTHING
        try:
            event = _read_event(block.data)
        except ValueError:
            return NOTHING
        kind = event.type
        if kind in _FAILS or block.name == "error":
            return Seen(error=True)
        reason = ""
        if kind in _ENDS:
            self.whole, reason = True, _ENDS[kind]
        if kind == "message_delta" and isinstance(event.delta, dict):
            stopped = str(event.delta.get("stop_reason") or "")
            reason = _REASONS.get(stopped, stopped)
        said = (event, event.response, event.message)
        usage = next((usage for of in said if of and (usage := _usage_of(of.usage))), None)
        tokens = int(kind.endswith("delta") and kind != "message_delta")
        begins = not tokens and not reason and kind.startswith("response.") and kind not in _WAITS
        return Seen(tokens, reason, self._with(usage), begins=begins)

    def see_all(self, body: bytes) -> Seen:
        try:
            answer = _read_response(body)
        except ValueError:
            return _unread(body)
        said = answer.stop_reason or answer.status or ""
        failed = bool(answer.error or said == "failed") and bytes(answer.output) in _NO_OUTPUT
        return Seen(0, _REASONS.get(said, said), _counts(_usage_of(answer.usage)), error=failed)

    def _with(self, usage: _Usage | None) -> Usage | None:
        """The counts so far: Anthropic gives those of the prompt first, and of the output last."""
        if usage is None:
            return None
        new = {name: it for name in _Usage.__struct_fields__ if (it := getattr(usage, name)) is not None}
        self._usage = msgspec.structs.replace(self._usage, **new)
        return _counts(self._usage) if new else None


_decode_any = msgspec.json.Decoder().decode


def is_answer(path: str, body: bytes) -> bool:
    """Whether a body can be read as an answer of the URL, where none of its parts says that it has ended, as finish reasons do."""
    short = without_items(body) if path == "/v1/embeddings" else None
    try:
        document = _decode_any(body if short is None else short[0])
    except UNREADABLE:
        return False
    if path == "/v1/embeddings":
        return isinstance(document, dict) and isinstance(document.get("data"), list)
    return isinstance(document, dict | list)


def reader_of(path: str, choices: int) -> Reader:
    """The reader for an answer of the URL, of which so many choices were asked."""
    if path in ("/v1/chat/completions", "/v1/completions"):
        return ChoicesReader(choices)
    if path in ("/v1/responses", "/v1/messages"):
        return EventsReader()
    if path == "/v1/embeddings":
        return EmbeddingsReader()
    return OpaqueReader(generates=path.startswith("/v1/audio/"))
