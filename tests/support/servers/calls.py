"""Calls of model servers by their adapters."""

from collections.abc import Awaitable, Callable
from typing import Any

from inference.backends.openai.model import OpenAIModel
from inference.backends.port import CallInfo, Event, Stream
from inference.core.passing.request import Passed, made
from tests.support.servers.standins import MODEL, ModelServer

StartServer = Callable[[str | type[ModelServer]], Awaitable[ModelServer]]
Connect = Callable[..., OpenAIModel]
CALL = CallInfo(7, 20, 2, b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01", "request", 1e9)


def chat(text: str = "What is a weir?", **parameters: Any) -> Passed:
    """A streamed chat."""
    messages = [{"role": "user", "content": text}]
    return made("/v1/chat/completions", "chat", {"model": MODEL, "messages": messages, "stream": True, **parameters})


async def events_of(stream: Stream) -> list[Event]:
    """The events until the answer ends."""
    events = list[Event]()
    while batch := await stream.next():
        events += batch
    return events
