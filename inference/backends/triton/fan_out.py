"""Several choices of one question, from servers that make one answer to a call."""

import asyncio
import time
from collections.abc import Sequence

from inference.backends.port import Event, Stream, Usage


class FanOut:
    """The streams of as many calls, as one. Each call's events become those of its choice; the last one brings the usage of
    all.
    """

    head = None
    awaited_since_s = 0.0

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._events: asyncio.Queue[tuple[int, Sequence[Event] | Exception]] = asyncio.Queue(maxsize=64)
        self._tasks: list[asyncio.Task[None]] = []
        self._unfinished = len(streams)
        self._usages: list[Usage] = []

    @property
    def waiting(self) -> bool:
        return any(stream.waiting for stream in self._streams)

    async def sent(self) -> None:
        for stream in self._streams:
            await stream.sent()

    async def next(self) -> Sequence[Event]:
        if not self._tasks:
            self._tasks = [asyncio.ensure_future(self._pump(index)) for index in range(len(self._streams))]
        if not self._unfinished:
            return ()
        self.awaited_since_s = time.monotonic()
        index, events = await self._events.get()
        self.awaited_since_s = 0.0
        if isinstance(events, Exception):
            raise events
        return [self._of_choice(index, event) for event in events]

    def _of_choice(self, index: int, event: Event) -> Event:
        if not event.finish_reason:
            return event._replace(choice=index)
        self._unfinished -= 1
        self._usages.append(event.usage or Usage())
        return event._replace(choice=index, usage=None if self._unfinished else _sum(self._usages))

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        for stream in self._streams:
            stream.cancel()

    async def _pump(self, index: int) -> None:
        stream = self._streams[index]
        try:
            while events := await stream.next():
                await self._events.put((index, events))
                if events[-1].finish_reason:
                    return
            await self._events.put((index, ()))
        except Exception as error:  # noqa: BLE001  (raised to whoever reads the stream)
            await self._events.put((index, error))


def _sum(usages: list[Usage]) -> Usage:
    """The prompt counts once; output tokens are unknown if those of any choice are."""
    outputs = [usage.output_tokens for usage in usages]
    return Usage(max(usage.prompt_tokens for usage in usages), -1 if -1 in outputs else sum(outputs))
