"""Lets identical requests that are in flight at the same time share one inference, called a flight.

A flight goes on while at least one request wants it. When the last one leaves, it is cancelled.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import structlog

from inference.contract.snapshot import Pool
from inference.core.events import ABORTED, TEXT_ALONE, UNCOUNTED, Event, Handed, Head, Usage, WholeAnswer, assemble
from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.core.pool_tally import PoolTally
from inference.observability.spans import Mark, now_ns

_log = structlog.get_logger()
_AHEAD_CHARS = 256 << 10  # of an answer whose clients do not read: several times the longest usual one


@dataclass(slots=True, eq=False)
class Flight:
    """The state of one inference: the work writes it, and the requests read it. All run in one event loop."""

    key: bytes | None
    leader: tuple[bytes, bytes]  # trace id and span id of the request that began it
    priority: int  # in the pool's queue
    requests: int = 0  # that have joined and not left
    events: list[Event] = field(default_factory=list)
    given: bool = False  # a client has something of the answer, so that no other can take its place
    prompt_tokens: int = -1
    whole_tokens: int = -1  # of the prompt, where only a part of it went to the server
    inputs: tuple[int, int] | None = (
        None  # of a list that was answered in part from the cache: how many of them, and of how many
    )
    tokens_source: str = ""  # of the prompt's number
    output_tokens: int = 0  # or UNCOUNTED
    unseen: bool = False  # a server makes an answer of which nothing comes before its end
    vectors: tuple[bytes, ...] = ()  # of embeddings
    head: Head | None = None  # of an answer that is handed on as it came
    usage: Usage | None = None  # the server's own counts
    admitted: bool = False  # it got a place in the pool, so its prompt's tokens are used
    metered: bool = False  # a request is charged by tokens, so it has to wake on admission
    finish_reason: str = ""  # of the first choice
    ended: set[int] = field(default_factory=set)  # the choices that have their finish reason
    aborted: bool = False  # by the server
    error: ApiError | None = None
    done: bool = False
    end_ns: int = 0
    marks: list[Mark] = field(default_factory=list)
    undecided: list[tuple[PoolTally, str]] | None = None  # what counts once a request is known to want its answer
    attempts: int = 0  # at replicas
    lost: list[str] = field(default_factory=list)  # replicas whose connection was lost while they had it
    pool: Pool | None = None  # that serves it
    dropped: list[str] = field(default_factory=list)  # parameters that a fallback's servers have no effect for
    replica: str = ""
    cold_start: bool = False
    task: asyncio.Task[None] | None = None
    blocked: int = 0  # requests whose clients read more slowly than the model answers
    _ahead_chars: int = 0  # that came since then
    _resumed: asyncio.Future[bool] | None = None
    _waiters: list[asyncio.Future[bool]] = field(default_factory=list)
    _end_waiters: list[asyncio.Future[bool]] = field(default_factory=list)
    _answer: WholeAnswer | None = None

    @property
    def used_tokens(self) -> int:
        """Tokens so far: the prompt's from its admission on, and the output's as they come."""
        return self._prompt_tokens + max(0, self.output_tokens) if self.admitted else 0

    @property
    def uncounted(self) -> bool:
        """Whether it is not known how many output tokens there were."""
        return self.unseen or self.output_tokens == UNCOUNTED

    @property
    def _prompt_tokens(self) -> int:
        """As the client counts them."""
        return self.whole_tokens if self.whole_tokens >= 0 else self.prompt_tokens

    @property
    def status(self) -> int:
        """With which the answer begins."""
        return 200 if self.head is None else self.head.status

    @property
    def says_its_error(self) -> bool:
        """Whether its error is the server's own, in the stream that is handed on."""
        error = self.error
        return self.head is not None and error is not None and error.answer is not None and not error.answer.status

    def answer(self) -> WholeAnswer:
        """The whole answer of a flight that has landed without an error."""
        if self._answer is None:
            usage, head = self.usage or Usage(), self.head
            handed = None
            if head is not None:
                handed = Handed(head.headers, b"".join([event.raw for event in self.events]), self.finish_reason)
            self._answer = WholeAnswer(
                assemble(self.events) if handed is None else (),
                self._prompt_tokens,
                self.output_tokens,
                usage.cached_tokens,
                usage.reasoning_tokens,
                self.vectors,
                handed,
                int(time.time()),
            )
        return self._answer

    # The work's side ------------------------------------------------------------------------------

    def count(self, tally: PoolTally, name: str) -> None:
        """Its pool was asked for this."""
        if self.undecided is None:
            setattr(tally, name, getattr(tally, name) + 1)
        else:
            self.undecided.append((tally, name))

    def begin(self) -> int:
        """Another attempt begins, of this number. Nothing is left of those before it."""
        self.attempts += 1
        self.output_tokens, self.aborted, self.finish_reason, self.usage = 0, False, "", None
        self.head, self.unseen = None, False
        self.events.clear()
        self.ended.clear()
        return self.attempts

    def add(self, events: Iterable[Event]) -> int:
        """Take events, up to one by which the server aborts its answer, and return how many characters they bring. What brings
        nothing for a client is counted and not kept.
        """
        kept, size = self.events, 0
        for event in events:
            if event[0] and event[2:7] == TEXT_ALONE:  # a token of text, as a rule
                size += len(event[0])
                self.output_tokens += event[7]
                kept.append(event)
                continue
            text, choice, finish_reason, reasoning, tool_calls, logprobs, usage, tokens, raw = event
            if finish_reason == ABORTED:
                self.aborted = True
                break
            size += (
                len(raw) + len(text) + len(reasoning) + len(logprobs) + sum(len(call.arguments) for call in tool_calls)
            )
            self.output_tokens += tokens
            if raw or text or finish_reason or reasoning or tool_calls or logprobs:
                kept.append(event)
            if finish_reason:
                self.ended.add(choice)
                if not choice:
                    self.finish_reason = finish_reason
            if usage is not None:
                self._settle(usage)
        return size

    def embed(self, vectors: tuple[bytes, ...], usage: Usage) -> None:
        """Take the embeddings."""
        self.vectors = vectors
        self._settle(usage)

    def _settle(self, usage: Usage) -> None:
        """Take the server's own counts for ours."""
        self.usage = usage
        if usage.prompt_tokens >= 0:
            self.prompt_tokens, self.tokens_source = usage.prompt_tokens, "server"
        if usage.output_tokens >= 0:
            self.output_tokens = usage.output_tokens

    def land(self, error: ApiError | None = None) -> None:
        if error is not None:  # the frames of its traceback, and those of what it came from, hold the flight: a circle
            error.__traceback__ = error.__context__ = error.__cause__ = None
        self.error, self.done, self.end_ns = error, True, now_ns()
        self._waiters += self._end_waiters
        self.wake()

    def wake(self) -> None:
        """Let the requests see what has changed."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _set(waiter, True)

    async def wait_for_readers(self, chars: int) -> None:
        """Count characters that came while a request is blocked. While all are, and 256 Ki characters wait for their
        clients, this waits, so that the server is not read from.
        """
        self._ahead_chars += chars
        while self.blocked >= self.requests and self._ahead_chars > _AHEAD_CHARS:
            self._resumed = asyncio.get_running_loop().create_future()
            await self._resumed

    # A request's side -----------------------------------------------------------------------------

    def want(self) -> None:
        """A request waits for its answer, whatever a look-up beside it finds."""
        undecided, self.undecided = self.undecided or (), None
        for tally, name in undecided:
            self.count(tally, name)

    def unblock(self) -> None:
        """The client has caught up, or has left."""
        self.blocked -= 1
        self._ahead_chars = 0
        self.resume()

    def resume(self) -> None:
        if self._resumed is not None:
            _set(self._resumed, True)

    async def landed(self) -> None:
        """Wait for the end."""
        while not self.done:
            await self.changed(None, only_end=True)

    async def changed(self, timeout_s: float | None, *, only_end: bool = False) -> bool:
        """Wait for more events or for the end. Returns False if `timeout_s` passed first."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        (self._end_waiters if only_end else self._waiters).append(waiter)
        if timeout_s is None:
            return await waiter
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

    def has(self, key: bytes) -> bool:
        """Whether a flight for `key` is under way."""
        return key in self._flights

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
            flight.want()
            flight.resume()
            return flight, True
        flight = Flight(key, leader, priority, requests=1)
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
