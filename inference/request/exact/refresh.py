"""Makes stale answers anew, after their requests have them: one of a key at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from inference.observability.span_export import SpanExport
from inference.observability.spans import Trace
from inference.request import own_requests
from inference.request.coalesce import Coalescer, Flight
from inference.request.work import Work


class Refreshes:
    """Nobody waits for one, and it is no demand: its request was answered, and is counted there."""

    def __init__(self, coalescer: Coalescer, export: SpanExport) -> None:
        self._coalescer, self._export = coalescer, export
        self._tasks: dict[bytes, asyncio.Task[object]] = {}

    def under_way(self, key: bytes) -> bool:
        return key in self._tasks or self._coalescer.has(key)

    def start(self, key: bytes, trace: Trace, work: Work, generate: Callable[[Flight], Awaitable[None]]) -> None:
        """Of an answer that no other request is making."""
        trace.can_wait = True
        flight, _ = self._coalescer.join(key, (trace.context.trace_id, trace.id), work.claim.priority, generate)
        refresh = own_requests.answer_of(trace, flight, work.pool, flight.landed(), self._export, work.question.images)
        task = self._tasks[key] = asyncio.get_running_loop().create_task(refresh)
        task.add_done_callback(partial(self._done, key, flight))

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _done(self, key: bytes, flight: Flight, _: object) -> None:
        del self._tasks[key]
        self._coalescer.leave(flight)
