"""One call of a replica: from its sending over its first event to the end of its answer."""

import asyncio
import time
from collections.abc import Sequence

from inference.backends.port import CallInfo, Embeddings, Event, Stream
from inference.backends.replica import Replica
from inference.backends.silence import Silence
from inference.core.backend_errors import (
    BackendError,
    BusyError,
    FailedError,
    InvalidError,
    LostCallError,
    RefusedError,
    SlowError,
    UnreachableError,
)
from inference.core.events import ABORTED
from inference.core.openai import errors
from inference.core.passing.request import Passed
from inference.core.question import GENERATION, Question
from inference.core.routing.need import Need
from inference.core.routing.suspects import digest_of
from inference.observability.context import span_id
from inference.observability.spans import ADMIT, CONNECT, INFER, Mark, now_ns
from inference.request.coalesce import Flight
from inference.request.guard.stream import GuardedStream
from inference.request.parsed_stream import parsed
from inference.request.work import Work
from inference.tasks import Deadline
from inference.tokenizers.model_text import Prepared
from inference.wires.connect import Connecting

OVERTAKEN = "overtaken"
"""`error.type` of an attempt whose hedge was faster."""
_MAX_ANSWER_CHARS = 4 << 20  # of one answer, which is kept in memory: some 30 times the longest that a model gives
_MAX_ANSWER_BYTES = 64 << 20  # of one that is handed on: a chunk has many bytes about each token


class Attempt:
    """Call `open`, then `follow`, and `close` in any case. Errors count against the replica as what they are: a server that
    cannot be reached may be down, a failure counts for ejection, and having no room is load.

    `until_s` is when the model's time is over, all attempts together, on the event loop's clock; where it waits for the server's limit
    of calls, that becomes later.
    """

    __slots__ = (
        "_began_s",
        "_budgeted",
        "_call",
        "_comes_whole",
        "_embeddings",
        "_failed",
        "_first",
        "_guarded",
        "_held_up",
        "_room",
        "_start_s",
        "_stream",
        "_timeout_ms",
        "flight",
        "mark",
        "replica",
        "until_s",
        "work",
    )

    def __init__(
        self, work: Work, flight: Flight, replica: Replica, need: Need, until_s: float, *, budgeted: bool
    ) -> None:
        number = flight.begin()
        self.work, self.flight, self.replica, self.until_s = work, flight, replica, until_s
        self._began_s = time.monotonic()
        self._budgeted = budgeted  # it has a place in the pool's retry budget
        self._call = work.pool.begin(replica, need)
        self._stream: Stream | None = None
        self._guarded: GuardedStream | None = None
        self._first: Sequence[Event] = ()
        self._embeddings: Embeddings | None = None
        self._failed = False
        self._held_up = False  # by clients that do not read, which says nothing of the replica's speed
        passed = work.question if isinstance(work.question, Passed) else None
        self._room = _MAX_ANSWER_CHARS if passed is None else _MAX_ANSWER_BYTES
        self._start_s = 0.0
        # What does not stream has its first token with its last.
        whole = passed is not None and not passed.streams
        self._timeout_ms = work.timeouts.model_ms if whole else work.timeouts.first_token_ms
        self._comes_whole = whole and work.question.operation in GENERATION
        self.mark = Mark(INFER, now_ns(), replica.name, replica.pool, number)
        self.mark.id, self.mark.weighed = span_id(), work.pool.balancer.weighed

    def show(self) -> None:
        """It is what the request waits for: its stage begins, and the request's replica is its."""
        flight, replica = self.flight, self.replica
        flight.marks.append(self.mark)
        flight.replica, flight.cold_start, flight.pool = replica.name, replica.served == 0, self.work.pool.pool
        replica.served += 1

    def overtake(self) -> None:
        """It began beside the attempt that the request waited for, and was faster. From its beginning on, the time is its."""
        marks = self.flight.marks
        while len(marks) > 1 and marks[-1].start_ns > self.mark.start_ns:
            marks.pop()
        marks[-1].retried = True
        self.show()

    async def open(self, prepared: Prepared, *, may_wait: bool = True) -> None:
        """Send the request and wait for its first event. Raises BackendError, ApiError."""
        work, loop = self.work, asyncio.get_running_loop()
        traceparent = b"00-%s-%s-%s" % (work.trace_id.hex().encode(), self.mark.id.hex().encode(), work.flags)
        stage = "model"
        self._start_s = loop.time()
        try:
            with Deadline(loop, min(self._start_s + self._timeout_ms / 1000, self.until_s)) as deadline:
                call = CallInfo(
                    self.flight.prompt_tokens,
                    work.model.max_output_tokens,
                    work.claim.priority,
                    traceparent,
                    work.trace_id.hex(),
                    self.until_s,
                    prepared.prompt,
                    Connecting(work.timeouts.connect_ms / 1000, self._connected),
                    work.claim.tenant,
                    prepared.ids,
                    work.text.decode,
                )
                backend = self.replica.backend
                question = prepared.question
                if question.operation == "embeddings" and isinstance(question, Question):
                    self._embeddings = await backend.embed(question, call)
                    self._began()
                    return
                self.flight.unseen = self._comes_whole
                stream = await backend.generate(question, call)
                self.flight.unseen = False
                if isinstance(question, Question):
                    stream = parsed(stream, backend, work.model, question, prepared.prompt)
                self._stream = stream
                if stream.waiting:
                    if not may_wait:
                        raise RefusedError("the server takes no more calls at once")
                    # The servers of all replicas are at their limit of calls, so this time counts as queue again.
                    self.mark.stage, stage, self._timeout_ms = ADMIT, "queue", work.timeouts.queue_ms
                    deadline.move(self._start_s + self._timeout_ms / 1000)
                    await stream.sent()
                    self.mark = self.mark.again(INFER, now_ns())
                    self.flight.marks.append(self.mark)
                    self.until_s += loop.time() - self._start_s
                    stage, self._timeout_ms, self._start_s = "model", work.timeouts.first_token_ms, loop.time()
                    deadline.move(min(self._start_s + self._timeout_ms / 1000, self.until_s))
                self._first = await stream.next()
                if work.guarded is not None:
                    choices = question.choices if isinstance(question, Question) else 0
                    self._guarded = work.guarded.of(stream, self._first, choices)
                    if self._guarded is not None:
                        self._first = await self._guarded.said_of(self._first)
            self._began()
        except TimeoutError:
            if stage == "queue" or loop.time() >= self.until_s:
                raise self._timed_out(stage) from None
            slow = SlowError(f"it sent nothing within {self._timeout_ms} ms", self._timeout_ms)
            self._blame(slow)
            raise slow from None
        except BackendError as error:
            self.flight.unseen = False
            self._blame(error)
            raise
        except asyncio.CancelledError:
            self.mark.error = self.mark.error or "cancelled"
            raise

    async def follow(self, choices: int) -> None:
        """Pass the events on to the flight, until it has landed. Of an answer that is handed on, its server's end counts, and
        `choices` is 0. Raises BackendError, ApiError.
        """
        flight = self.flight
        flight.head = self._stream.head if self._stream is not None else None
        if self._embeddings is not None:
            flight.embed(*self._embeddings)
            flight.land()
            return
        try:
            size = self._pass_on(self._first)
            came_whole = flight.head is not None and not flight.head.streams
            if self._first and not (came_whole or self._is_whole(choices)):
                loop, stream = asyncio.get_running_loop(), self._stream
                assert stream is not None
                # A busy server may put off for long what nobody waits for.
                timeouts = self.work.timeouts
                silence_ms = timeouts.model_ms if self.work.can_wait else timeouts.next_token_ms
                with Deadline(loop, self.until_s) as deadline, Silence(loop, stream, silence_ms):
                    await self._follow(choices, size, deadline)
            flight.head = self._stream.head if self._stream is not None else None
            if len(flight.ended) < choices:
                raise FailedError("it ended its answer without saying why", "no_finish_reason")
            flight.land()
        except TimeoutError:
            raise self._timed_out("model") from None
        except BackendError as error:
            self._blame(error)
            raise
        except asyncio.CancelledError:
            self.mark.error = "cancelled"
            raise

    async def _follow(self, choices: int, size: int, deadline: Deadline) -> None:
        """Pass on what comes after the first events, which had `size` characters. The time for which clients do not read is not the
        model's.
        """
        flight, stream, guarded = self.flight, self._stream, self._guarded
        assert stream is not None
        while True:
            flight.wake()
            if flight.blocked:
                self._held_up = True
                loop, until_s = asyncio.get_running_loop(), self.until_s
                before_s = loop.time()
                deadline.move(None)
                await flight.wait_for_readers(size)
                self.until_s = until_s + loop.time() - before_s
                deadline.move(self.until_s)
            if guarded is None:
                events = await stream.next()
            elif guarded.is_done:
                return
            else:
                events = await stream.next()
                events = guarded.word(events) or await guarded.said_of(events)
            size = self._pass_on(events)
            if not events or self._is_whole(choices):
                return

    def _pass_on(self, events: Sequence[Event]) -> int:
        """Give events to the flight, and return how many characters they bring. Raises BackendError, ApiError."""
        size = self.flight.add(events)
        self._room -= size
        if self._room < 0:
            self.mark.error = "answer_too_long"
            raise self._model_failed(f"its answer is longer than {_MAX_ANSWER_CHARS} characters")
        if self.flight.aborted:
            raise RefusedError("the server ended the request before its answer was complete", ABORTED)
        return size

    def _is_whole(self, choices: int) -> bool:
        return self.flight.usage is not None and 0 < choices == len(self.flight.ended)

    def close(self, error: str = "") -> None:
        """It has ended, or another attempt has taken its place: then `error` is its `error.type`, if it has none."""
        flight, won = self.flight, self.flight.done and not error
        if error and self.mark.error in ("", "cancelled"):
            self.mark.error = error
        self._settle_budget()
        self._call.ended(time.monotonic(), max(0, flight.output_tokens) if won and not self._held_up else 0)
        if self.replica.leaving:
            self.replica.changed()  # it takes this request's place along
        self.mark.end_ns = flight.end_ns if won else now_ns()
        if won:
            if not self._failed:
                self.replica.call_answered()
        elif self._stream is not None:
            self._stream.cancel()
        self._stream = None  # its call refers to this: without a circle, no garbage collection has to find them
        self._guarded = None

    def _connected(self) -> None:
        """There was no connection, and now there is one: until here it was the network's time."""
        mark, marks = self.mark, self.flight.marks
        if marks and marks[-1] is mark:  # else it is a hedge, whose time is nobody's
            mark.stage = CONNECT
            self.mark = mark.again(INFER, now_ns())
            marks.append(self.mark)

    def _began(self) -> None:
        """The server has begun to answer. Of an answer that comes whole, nothing says when its first token was there."""
        if self._comes_whole:
            pass
        elif self._first:
            self.mark.first_token_ns = now_ns()
            self._call.first_token(time.monotonic())
        elif self._embeddings is not None:
            self._call.first_token(time.monotonic())
        self._settle_budget()

    def _settle_budget(self) -> None:
        if self._budgeted:
            self._budgeted = False
            self.work.pool.retries.give_back()

    def _blame(self, error: BackendError) -> None:
        self.mark.error = error.error_type
        if self.work.pool.pool.keep_error_texts:
            error.quote()
        replica = self.replica
        match error:
            case InvalidError():
                replica.call_answered()
                return
            case RefusedError():
                replica.probe_soon()
            case LostCallError():
                replica.call_lost(self._began_s, error.message)
                self.work.pool.suspects.died(digest_of(self.work.model.name, self.work.question), time.monotonic())
                self.flight.lost.append(replica.name)
            case UnreachableError():
                replica.unreached(self._began_s, error.message)
            case BusyError():
                replica.call_busy(error.pause_s)
            case _:
                replica.call_failed(error.message)
        self._failed = True

    def _timed_out(self, stage: str) -> errors.ApiError:
        """The time of the stage is over. One that was called late in it is not to blame."""
        timeouts = self.work.timeouts
        self.mark.error = "timeout"
        if stage == "queue":
            return errors.stage_timeout(stage, timeouts.queue_ms)
        self._failed = True
        if self.until_s - self._start_s >= 0.9 * min(timeouts.model_ms, timeouts.first_token_ms) / 1000:
            self.replica.call_failed("timeout")
        return errors.stage_timeout(stage, timeouts.model_ms)

    def _model_failed(self, reason: str) -> errors.ApiError:
        self._failed = True
        self.replica.call_failed(reason)
        return errors.model_failed(reason)
