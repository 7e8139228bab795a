"""Runs one inference: counts the prompt's tokens, waits for a place in the pool, calls a replica, and passes its tokens on."""

import asyncio
import time
from typing import NamedTuple

import structlog

from inference.backends.fleet import PoolState, Replica
from inference.backends.triton import Inference
from inference.core.errors import RetryableError
from inference.core.normalise import Question
from inference.core.openai import errors
from inference.core.snapshot import Model, StageTimeouts
from inference.observability.spans import ADMIT, INFER, TOKENIZE, Mark, now_ns, span_id
from inference.request.admit import QueueFullError
from inference.request.coalesce import Flight
from inference.request.tokenize import Tokenizer
from inference.wires.grpc import GrpcError, RefusedError, UnavailableError, UnreachableError

_log = structlog.get_logger()
_RETRY_AFTER_S = RetryableError.retry_after_s
_ATTEMPTS = 2
_MAX_ANSWER_CHARS = 4 << 20  # of one answer, which is kept in memory: some 30 times the longest that a model gives


class Work(NamedTuple):
    question: Question
    model: Model
    pool: PoolState
    tokenizer: Tokenizer
    timeouts: StageTimeouts
    priority: int
    trace_id: bytes
    flags: bytes


async def generate(work: Work, flight: Flight) -> None:
    """Fill `flight`, with an ApiError if the inference fails. Cancelling this stops the model."""
    flight.marks.append(Mark(TOKENIZE, now_ns()))
    try:
        flight.prompt_tokens = await _count(work)
        flight.marks.append(Mark(ADMIT, now_ns()))
        await _admit(work)
        flight.admitted = True
        if flight.metered:
            flight.wake()
        try:
            await _infer(work, flight)
        finally:
            work.pool.admission.release()
    except errors.ApiError as error:
        flight.land(error=error)


async def _count(work: Work) -> int:
    prompt, limit = work.question.prompt, work.model.max_prompt_tokens
    param = "messages" if work.question.operation == "chat" else "prompt"
    timeout_ms = work.timeouts.tokenizer_ms
    try:
        tokens = work.tokenizer.count_short(prompt)
        if tokens is None:
            async with asyncio.timeout(timeout_ms / 1000):
                tokens = await work.tokenizer.count(prompt, limit)
    except TimeoutError:
        raise errors.stage_timeout("tokenizer", timeout_ms) from None
    if tokens > limit:
        raise errors.context_length(tokens, limit, param)
    return tokens


async def _admit(work: Work) -> None:
    admission = work.pool.admission
    if admission.try_acquire():
        return
    try:
        await admission.acquire(work.priority, work.timeouts.queue_ms / 1000)
    except QueueFullError as error:
        raise errors.overloaded(work.model.name, error.retry_after_s) from None
    except TimeoutError:
        raise errors.stage_timeout("queue", work.timeouts.queue_ms) from None


async def _infer(work: Work, flight: Flight) -> None:
    tried: list[Replica] = []
    again: Replica | None = None  # it refused the last call, but it lives: used when there is no other
    for attempt in range(1, _ATTEMPTS + 1):
        replica = work.pool.choose(tried) or again
        if replica is None:
            what = "is not answering" if tried else "has no replica that is ready"
            raise errors.unavailable(f"The model {work.model.name!r} {what}. Try again in a moment.", _RETRY_AFTER_S)
        tried.append(replica)
        again = None
        replica.in_flight += 1
        try:
            await _attempt(work, flight, replica, attempt)
        except RefusedError:
            replica.probe_soon()
            again = replica
        except UnreachableError as error:
            replica.failed(error.message)
            if flight.texts:
                raise errors.unavailable(
                    "The model's replica was lost in the middle of the answer.", _RETRY_AFTER_S
                ) from None
        except UnavailableError as error:
            replica.health.call_failed(time.monotonic())
            replica.probe_soon()  # its queue is full, or its model is being loaded
            if flight.texts:
                message = "The model stopped in the middle of the answer."
                raise errors.unavailable(message, _RETRY_AFTER_S, detail=error.message) from None
        except GrpcError as error:
            replica.health.call_failed(time.monotonic())
            _log.warning("model.failed", model=work.model.name, replica=replica.name, reason=str(error))
            raise errors.model_failed(error.message) from None
        except errors.ApiError as error:
            if error.stage == "model":
                replica.health.call_failed(time.monotonic())
            raise
        else:
            replica.health.call_answered(time.monotonic())
            return
        finally:
            replica.in_flight -= 1
    raise errors.unavailable(f"The model {work.model.name!r} is not answering. Try again in a moment.", _RETRY_AFTER_S)


async def _attempt(work: Work, flight: Flight, replica: Replica, attempt: int) -> None:
    """Call one replica. Each attempt has a span of its own."""
    mark = Mark(INFER, now_ns(), replica.name, replica.pool, attempt)
    mark.id = span_id()
    if attempt > 1:
        flight.marks[-1].retried = True
    flight.marks.append(mark)
    flight.replica, flight.cold_start = replica.name, replica.served == 0
    replica.served += 1
    traceparent = b"00-%s-%s-%s" % (work.trace_id.hex().encode(), mark.id.hex().encode(), work.flags)
    inference: Inference | None = None
    stage, timeout_ms = "model", work.timeouts.first_token_ms
    room = _MAX_ANSWER_CHARS
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    try:
        async with asyncio.timeout_at(start_s + timeout_ms / 1000) as timeout:
            inference = await replica.model.infer(work.question, flight.prompt_tokens, work.priority, traceparent)
            if inference.waiting:
                # The servers of all replicas are at their limit of calls, so this time counts as queue again.
                mark.stage, stage, timeout_ms = ADMIT, "queue", work.timeouts.queue_ms
                timeout.reschedule(start_s + timeout_ms / 1000)
                await inference.sent()
                mark = mark.again(INFER, now_ns())
                flight.marks.append(mark)
                stage, timeout_ms, start_s = "model", work.timeouts.first_token_ms, loop.time()
                timeout.reschedule(start_s + timeout_ms / 1000)
            while (chunk := await inference.next()) is not None:
                if not mark.first_token_ns:
                    mark.first_token_ns = now_ns()
                    timeout_ms = work.timeouts.model_ms
                    timeout.reschedule(start_s + timeout_ms / 1000)
                if chunk.text:
                    flight.texts.append(chunk.text)
                    room -= len(chunk.text)
                    if room < 0:
                        mark.error = "answer_too_long"
                        raise errors.model_failed(f"its answer is longer than {_MAX_ANSWER_CHARS} characters")
                if chunk.finish_reason:
                    flight.land(chunk.finish_reason)
                    return
                flight.wake()
        mark.error = "no_finish_reason"
        raise errors.model_failed("it ended its answer without saying why")
    except TimeoutError:
        mark.error = "timeout"
        raise errors.stage_timeout(stage, timeout_ms) from None
    except UnreachableError as error:
        mark.error = "refused" if isinstance(error, RefusedError) else "unreachable"
        raise
    except GrpcError as error:
        mark.error = error.status.name.lower()
        raise
    except asyncio.CancelledError:
        mark.error = "cancelled"
        raise
    finally:
        mark.end_ns = flight.end_ns if flight.done else now_ns()
        if inference is not None and not flight.done:
            inference.cancel()
