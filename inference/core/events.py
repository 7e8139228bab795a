"""The items of an answer as it comes from a model server, and the answer that they make.

A token of text is `Event(text)`. Everything else that OpenAI's chunks can carry has a field of its own.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

ABORTED = "abort"
"""The finish reason of a server that ended a request without its answer, such as vLLM while it shuts down (status 200)."""

UNCOUNTED = -1
"""Tokens of an answer that came whole, and of which its server says no number."""


class ToolCallDelta(NamedTuple):
    """A part of a tool call, by its `number` in the choice, from 0. `id` and `name` come with its first part, and `arguments` are
    joined.
    """

    number: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Usage(NamedTuple):
    """Counts of tokens as the server reports them; -1 where it does not. Output tokens include those of reasoning."""

    prompt_tokens: int = -1
    output_tokens: int = -1
    cached_tokens: int = -1  # of the prompt's
    reasoning_tokens: int = -1  # of the output's
    audio_tokens: int = -1  # of the prompt's


class Event(NamedTuple):
    """One item of an answer's stream.

    `finish_reason` comes with the last event of a choice. `logprobs` is JSON as the value of `logprobs` in a choice of
    OpenAI's chunks for that operation. `tokens` is how many output tokens the event stands for, where `usage` says no more.
    """

    text: str = ""
    choice: int = 0  # its index
    finish_reason: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    logprobs: bytes = b""
    usage: Usage | None = None  # with the last event or alone
    tokens: int = 1
    raw: bytes = b""  # of an answer that is handed on as it came: this part of it


class Head(NamedTuple):
    """How an answer begins that is handed on as it came. `cut` is known at its end: its choices have ended, and its server has not."""

    streams: bool
    headers: tuple[tuple[bytes, bytes], ...]
    status: int = 200
    cut: bool = False


class ToolCall(msgspec.Struct, frozen=True, array_like=True):
    """A whole call of a function; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


TEXT_ALONE = Event()[2:7]
"""These fields of an event that brings text and no more, as nearly all do."""


class Choice(msgspec.Struct, frozen=True, array_like=True):
    """One choice of a whole answer. `logprobs` is JSON, or empty."""

    text: str
    finish_reason: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    logprobs: bytes = b""


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """A whole answer as it came."""

    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    finish_reason: str


class WholeAnswer(msgspec.Struct, frozen=True, array_like=True):
    """A whole answer: what is stored in the cache, and what a client that does not stream gets. Token counts are -1 where
    they are not known.
    """

    choices: tuple[Choice, ...]
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = -1
    reasoning_tokens: int = -1
    vectors: tuple[bytes, ...] = ()  # of embeddings: one per input, as little-endian 32-bit floats
    handed: Handed | None = None  # in place of choices and vectors
    made_s: int = 0  # Unix time; 0 where it is not known
    fresh_until_s: int = 0  # Unix time from which on it is stale; 0 is never
    expires_s: int = 0  # Unix time from which on the cache does not have it; 0 where that is not known


class _Parts:
    """What the events of one choice have brought."""

    __slots__ = ("calls", "finish_reason", "logprobs", "reasoning", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, list[str]] = {}  # id, name, and then the parts of the arguments
        self.logprobs: list[bytes] = []
        self.finish_reason = ""

    def add(self, event: Event) -> None:
        text, _, finish_reason, reasoning, tool_calls, logprobs, *_ = event
        if text:
            self.texts.append(text)
        if reasoning:
            self.reasoning.append(reasoning)
        for delta in tool_calls:
            call = self.calls.setdefault(delta.number, ["", ""])
            call[0] = call[0] or delta.id
            call[1] = call[1] or delta.name
            call.append(delta.arguments)
        if logprobs:
            self.logprobs.append(logprobs)
        if finish_reason:
            self.finish_reason = finish_reason

    def choice(self) -> Choice:
        calls = tuple(ToolCall(call[0], call[1], "".join(call[2:])) for _, call in sorted(self.calls.items()))
        return Choice(
            "".join(self.texts), self.finish_reason, "".join(self.reasoning), calls, join_logprobs(self.logprobs)
        )


def assemble(events: Iterable[Event]) -> tuple[Choice, ...]:
    """The choices that a stream's events make, in the order of their index."""
    parts: dict[int, _Parts] = {}
    for event in events:
        choice = parts.get(event[1])
        if choice is None:
            choice = parts[event[1]] = _Parts()
        if event[2:7] == TEXT_ALONE:
            choice.texts.append(event[0])
        else:
            choice.add(event)
    return tuple(parts[index].choice() for index in sorted(parts))


def join_logprobs(logprobs: list[bytes]) -> bytes:
    """The `logprobs` of a whole choice from those of its chunks: their lists are joined, other values are the last ones."""
    if len(logprobs) < 2:
        return logprobs[0] if logprobs else b""
    joined: dict[str, object] = {}
    for part in logprobs:
        for name, value in msgspec.json.decode(part, type=dict[str, object]).items():
            before = joined.get(name)
            if isinstance(before, list) and isinstance(value, list):
                before.extend(value)
            elif before is None or value is not None:
                joined[name] = value
    return msgspec.json.encode(joined)
