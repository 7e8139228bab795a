"""Calls of model servers by their adapters."""

from collections.abc import Awaitable, Callable
from typing import Any

from inference.backends.openai.model import OpenAIModel
from inference.backends.port import CallInfo, Event, Stream
from inference.core.question import Message, Question
from tests.support.servers.standins import ModelServer

StartServer = Callable[[str], Awaitable[ModelServer]]
Connect = Callable[..., OpenAIModel]
CALL = CallInfo(7, 20, 2, b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01", "request", 1e9)


def chat(text: str = "What is a weir?", **parameters: Any) -> Question:
    return Question(operation="chat", messages=(Message("user", text),), **parameters)


async def events_of(stream: Stream) -> list[Event]:
    """The events until the answer ends."""
    events = list[Event]()
    while batch := await stream.next():
        events += batch
    return events
