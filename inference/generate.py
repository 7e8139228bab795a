"""The work of one inference: count the prompt's tokens, wait for a place, ask a replica, and pass its tokens on."""

import asyncio
from typing import NamedTuple

import structlog

from inference.admission import QueueFullError
from inference.backends.triton import Inference
from inference.coalesce import Flight
from inference.fleet import PoolState, Replica
from inference.grpc import GrpcError, Status, UnreachableError
from inference.normalise import Question
from inference.openai import errors
from inference.snapshot import Budgets, Model
from inference.spans import ADMIT, INFER, TOKENIZE, Mark, now_ns, span_id
from inference.tokenizers import Tokenizer

_log = structlog.get_logger()
_RETRY_AFTER_S = 1.0  # a replica is asked again within two seconds at most; a model takes longer to load than that
_ATTEMPTS = 2


class Work(NamedTuple):
    question: Question
    model: Model
    pool: PoolState
    tokenizer: Tokenizer
    budgets: Budgets
    priority: int
    trace_id: bytes
    flags: bytes


async def generate(work: Work, flight: Flight) -> None:
    """Fill `flight`. Whatever goes wrong lands in it as an ApiError; cancelling this stops the model."""
    flight.marks.append(Mark(TOKENIZE, now_ns()))
    work.pool.users += 1
    try:
        flight.prompt_tokens = await _count(work)
        flight.marks.append(Mark(ADMIT, now_ns()))
        await _admit(work)
        try:
            await _infer(work, flight)
        finally:
            work.pool.admission.release()
    except errors.ApiError as error:
        flight.land(error=error)
    finally:
        work.pool.users -= 1


async def _count(work: Work) -> int:
    prompt, limit = work.question.prompt, work.model.max_prompt_tokens
    param = "messages" if work.question.operation == "chat" else "prompt"
    budget_ms = work.budgets.tokenizer_ms
    try:
        tokens = work.tokenizer.count_short(prompt)
        if tokens is None:
            async with asyncio.timeout(budget_ms / 1000):
                tokens = await work.tokenizer.count(prompt, limit)
    except TimeoutError:
        raise errors.stage_timeout("tokenizer", budget_ms) from None
    if tokens > limit:
        raise errors.context_length(tokens, limit, param)
    return tokens


async def _admit(work: Work) -> None:
    admission = work.pool.admission
    if admission.try_acquire():
        return
    try:
        await admission.acquire(work.priority, work.budgets.queue_ms / 1000)
    except QueueFullError:
        raise errors.overloaded(work.model.name, _RETRY_AFTER_S) from None
    except TimeoutError:
        raise errors.stage_timeout("queue", work.budgets.queue_ms) from None


async def _infer(work: Work, flight: Flight) -> None:
    tried: list[Replica] = []
    while True:
        replica = work.pool.choose(tried)
        if replica is None:
            # Each that was tried was alive and refused, or has just gone: either way a moment may mend it.
            what = "is not answering" if tried else "has no replica that is ready"
            raise errors.unavailable(f"The model {work.model.name!r} {what}. Try again in a moment.", _RETRY_AFTER_S)
        tried.append(replica)
        replica.in_flight += 1
        try:
            await _ask(work, flight, replica)
        except UnreachableError as error:
            replica.failed(error.message)
            if flight.texts:
                raise errors.unavailable(
                    "The model's replica was lost in the middle of the answer.", _RETRY_AFTER_S
                ) from None
        except GrpcError as error:
            if error.status is not Status.UNAVAILABLE:
                _log.warning("model.failed", model=work.model.name, replica=replica.name, reason=str(error))
                raise errors.model_failed(error.message) from None
            replica.doubted()  # its queue is full, or its model is being loaded
            if flight.texts:
                raise errors.unavailable(f"The model stopped: {error.message}", _RETRY_AFTER_S) from None
        else:
            return
        finally:
            replica.in_flight -= 1
        if len(tried) >= _ATTEMPTS:
            raise errors.unavailable(
                f"The model {work.model.name!r} is not answering. Try again in a moment.", _RETRY_AFTER_S
            )


async def _ask(work: Work, flight: Flight, replica: Replica) -> None:
    mark = Mark(INFER, now_ns(), replica.name, replica.pool)
    mark.id = span_id()
    flight.marks.append(mark)
    flight.replica, flight.cold_start = replica.name, replica.served == 0
    replica.served += 1
    traceparent = b"00-%s-%s-%s" % (work.trace_id.hex().encode(), mark.id.hex().encode(), work.flags)
    inference: Inference | None = None
    budget_ms = work.budgets.first_token_ms
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    try:
        async with asyncio.timeout_at(start_s + budget_ms / 1000) as budget:
            inference = await replica.model.infer(work.question, flight.prompt_tokens, work.priority, traceparent)
            while (chunk := await inference.next()) is not None:
                if not mark.first_token_ns:
                    mark.first_token_ns = now_ns()
                    budget_ms = work.budgets.model_ms
                    budget.reschedule(start_s + budget_ms / 1000)
                if chunk.text:
                    flight.texts.append(chunk.text)
                if chunk.finish_reason:
                    flight.land(chunk.finish_reason)
                    return
                flight.tell()
        raise errors.model_failed("it ended its answer without saying why")
    except TimeoutError:
        raise errors.stage_timeout("model", budget_ms) from None
    finally:
        if inference is not None and not flight.done:
            inference.cancel()
