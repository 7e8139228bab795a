"""Reads tool calls and reasoning out of an answer's text, where the model's server leaves them in it."""

import secrets
from collections.abc import Sequence

from inference.backends.port import Backend, Event, Stream
from inference.contract.snapshot import Model
from inference.core.question import Prompt, Question
from inference.core.tools.answer_parser import AnswerParser
from inference.core.tools.forced import is_forced


def parsed(stream: Stream, backend: Backend, model: Model, question: Question, prompt: Prompt) -> Stream:
    """`stream` itself where there is nothing to read out: a server that takes messages has parsers of its own."""
    if not backend.needs_prompt or question.operation != "chat":
        return stream
    tool_parser, reasoning_parser = "", model.reasoning_parser
    if is_forced(question):
        tool_parser, reasoning_parser = "forced", ""
    elif question.tools and question.tool_choice != "none":
        tool_parser = model.tool_parser
    if not tool_parser and not reasoning_parser:
        return stream
    text = prompt if isinstance(prompt, str) else ""
    parallel = question.parallel_tool_calls is not False
    return _Parsed(stream, AnswerParser(tool_parser, reasoning_parser, text, _new_id, parallel=parallel))


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


class _Parsed:
    head = None

    def __init__(self, stream: Stream, parser: AnswerParser) -> None:
        self._stream = stream
        self._parser = parser

    @property
    def waiting(self) -> bool:
        return self._stream.waiting

    @property
    def awaited_since_s(self) -> float:
        return self._stream.awaited_since_s

    async def sent(self) -> None:
        await self._stream.sent()

    async def next(self) -> Sequence[Event]:
        while events := await self._stream.next():
            if shown := [event for event in map(self._parser.parse, events) if event is not None]:
                return shown
        return ()

    def cancel(self) -> None:
        self._stream.cancel()
