"""Lets identical requests that are in flight at the same time share one inference, called a flight.

A flight goes on while at least one request wants it. When the last one leaves, it is cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.observability.spans import Mark, now_ns

_log = structlog.get_logger()


class Flight:
    """The state of one inference: the work writes it, and the requests read it. All run in one event loop."""

    __slots__ = (
        "_waiters",
        "admitted",
        "cold_start",
        "done",
        "end_ns",
        "error",
        "finish_reason",
        "key",
        "leader",
        "marks",
        "metered",
        "priority",
        "prompt_tokens",
        "replica",
        "requests",
        "task",
        "texts",
    )

    def __init__(self, key: bytes | None, leader: tuple[bytes, bytes], priority: int) -> None:
        self.key = key
        self.priority = priority  # in the pool's queue
        self.leader = leader  # trace id and span id of the request that began it
        self.texts: list[str] = []  # one per output token
        self.prompt_tokens = -1
        self.admitted = False  # it got a place in the pool, so its prompt's tokens are used
        self.metered = False  # a request is charged by tokens, so it has to wake on admission
        self.finish_reason = ""
        self.error: ApiError | None = None
        self.done = False
        self.end_ns = 0
        self.marks: list[Mark] = []
        self.replica = ""
        self.cold_start = False
        self.requests = 0  # that have joined and not left
        self.task: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[bool]] = []

    @property
    def output_tokens(self) -> int:
        return len(self.texts)

    @property
    def used_tokens(self) -> int:
        """Tokens so far: the prompt's from its admission on, and the output's as they come."""
        return self.prompt_tokens + len(self.texts) if self.admitted else 0

    # The work's side ------------------------------------------------------------------------------

    def land(self, finish_reason: str = "", error: ApiError | None = None) -> None:
        self.finish_reason, self.error, self.done, self.end_ns = finish_reason, error, True, now_ns()
        self.wake()

    def wake(self) -> None:
        """Let the requests see what has changed."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _set(waiter, True)

    # A request's side -----------------------------------------------------------------------------

    async def changed(self, timeout_s: float) -> bool:
        """Wait for more text or for the end. Returns False if `timeout_s` passed first."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(timeout_s, _set, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()


def _set(waiter: asyncio.Future[bool], value: bool) -> None:
    if not waiter.done():
        waiter.set_result(value)


class Coalescer:
    def __init__(self) -> None:
        self._flights: dict[bytes, Flight] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    def join(
        self, key: bytes | None, leader: tuple[bytes, bytes], priority: int, work: Callable[[Flight], Awaitable[None]]
    ) -> tuple[Flight, bool]:
        """The flight for `key`, and whether it was under way already. With key None it is never shared. Every `join`
        needs one `leave`.

        A request does not join a flight of a worse priority, because it would wait longer than alone.
        """
        flight = self._flights.get(key) if key is not None else None
        if flight is not None and flight.priority <= priority:
            flight.requests += 1
            return flight, True
        flight = Flight(key, leader, priority)
        flight.requests = 1
        if key is not None:
            self._flights[key] = flight
        flight.task = asyncio.get_running_loop().create_task(self._fly(flight, work))
        self._tasks.add(flight.task)
        flight.task.add_done_callback(self._tasks.discard)
        return flight, False

    def leave(self, flight: Flight) -> None:
        flight.requests -= 1
        if flight.requests == 0 and not flight.done:
            self._forget(flight)
            assert flight.task is not None
            flight.task.cancel()

    async def _fly(self, flight: Flight, work: Callable[[Flight], Awaitable[None]]) -> None:
        try:
            await work(flight)
        except Exception:  # noqa: BLE001  (whatever it is, no request may wait for ever, and the log has the reason)
            request = flight.leader[0].hex()
            _log.exception("flight.failed", request=request)
            if not flight.done:
                flight.land(error=errors.internal(request))
        finally:
            self._forget(flight)
            if not flight.done:
                flight.land(error=errors.model_failed("it was cancelled"))

    def _forget(self, flight: Flight) -> None:
        if flight.key is not None and self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
