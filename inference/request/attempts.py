"""Has a request answered by a pool: retries what failed before the client had anything of it, and hedges what is slow."""

import asyncio
import time

import structlog

from inference.backends.replica import Replica
from inference.contract.errors import RetryableError
from inference.core.backend_errors import (
    BackendError,
    BusyError,
    FailedError,
    InvalidError,
    LostCallError,
    RefusedError,
    ServerAnswer,
    SlowError,
    UnreachableError,
    UnservedError,
)
from inference.core.events import ABORTED
from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.core.passing.request import Passed
from inference.core.question import Question
from inference.core.routing.need import Need, need_of
from inference.core.routing.retry import hedge_after_s
from inference.core.routing.suspects import MAX_DEATHS, digest_of
from inference.request.attempt import OVERTAKEN, Attempt
from inference.request.coalesce import Flight
from inference.request.work import Work
from inference.tokenizers.model_text import Prepared

_log = structlog.get_logger()
_RETRY_AFTER_S = RetryableError.retry_after_s


async def infer(work: Work, flight: Flight, prepared: Prepared) -> None:
    """Fill `flight` from a replica of the pool. Raises ApiError."""
    pool, question, model = work.pool, work.question, work.model
    most_output = question.max_tokens or model.max_output_tokens
    need = need_of(
        question,
        model.name,
        work.claim.tenant,
        flight.prompt_tokens,
        most_output,
        compare=len(pool.replicas) > 1,
    )
    hedge_s = hedge_after_s(model, question.deterministic, flight.prompt_tokens, most_output)
    if isinstance(question, Passed) and not question.streams:
        hedge_s = 0.0  # nothing of it comes before its end, so nothing says that it is slow
    until_s = asyncio.get_running_loop().time() + work.timeouts.model_ms / 1000
    tried: list[Replica] = []
    again: Replica | None = None  # it refused the last call, but it lives: used when there is no other
    failure: BackendError | None = None
    failed: list[str] = []  # replicas whose server failed, as against one that is away or has no room
    for _ in range(pool.retries.rule.attempts):
        if pool.suspects and _deaths(work) >= MAX_DEATHS:
            _log_failed(work, failed, failure, answered=False)
            raise errors.lost_with_prompt(model.name, flight.lost)
        replica = pool.choose(need, tried) or again
        if replica is None:
            break
        # A call that its server never began costs nothing to repeat.
        began = not isinstance(failure, RefusedError) or failure.error_type == ABORTED
        budgeted = failure is not None and began
        if budgeted and not pool.retries.take(pool.in_flight):
            break
        if failure is not None:
            flight.marks[-1].retried = True
        tried.append(replica)
        attempt = Attempt(work, flight, replica, need, until_s, budgeted=budgeted)
        attempt.show()
        try:
            if hedge_s:
                attempt = await _hedged(attempt, hedge_s, prepared, tried, need)
            else:
                await attempt.open(prepared)
            await attempt.follow(question.choices if isinstance(question, Question) else 0)
        except BackendError as error:
            failure = error.with_traceback(None)  # its frames are held by this one, which holds the error
            if isinstance(error, FailedError):
                failed.append(attempt.replica.name)
            if isinstance(error, UnservedError):
                server = attempt.replica.backend.capabilities.server
                refusal = errors.not_served(model.name, question.operation, server, stage="model", detail=error.message)
                raise _with(error.answer, refusal) from None
            if isinstance(error, InvalidError):
                refusal = errors.refused_by_server(error.message, error.status, error.param, error.code)
                raise _with(error.answer, refusal) from None
            if flight.given:
                _log_failed(work, failed, error, answered=False)
                raise _with(error.answer, _midway(error)) from None
            again = attempt.replica if isinstance(error, RefusedError) else None
        else:
            if pool.suspects:
                pool.suspects.answered(digest_of(model.name, question))
            _log_failed(work, failed, failure, answered=True)
            return
        finally:
            until_s = attempt.until_s
            attempt.close()
    _log_failed(work, failed, failure, answered=False)
    raise _with(failure.answer if failure else None, _failed(work, flight, failure)) from None


def _deaths(work: Work) -> int:
    """Of replicas that had this prompt."""
    return work.pool.suspects.deaths(digest_of(work.model.name, work.question), time.monotonic())


async def _hedged(attempt: Attempt, after_s: float, prepared: Prepared, tried: list[Replica], need: Need) -> Attempt:
    """Open `attempt`, and another one beside it if it has no event after `after_s`. Returns the one whose first event came
    first, and ends the other. Raises what `attempt` raises where both fail.
    """
    first = asyncio.ensure_future(attempt.open(prepared))
    tasks = {first: attempt}
    winner: Attempt | None = None
    try:
        await asyncio.wait(tasks, timeout=after_s)
        if not first.done() and (hedge := _hedge(attempt, tried, need)) is not None:
            tasks[asyncio.ensure_future(hedge.open(prepared, may_wait=False))] = hedge
        pending = set(tasks)
        while winner is None and pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            winner = next((tasks[task] for task in tasks if task in done and task.exception() is None), None)
        if winner is None:
            await first
    finally:
        for task in tasks:
            task.cancel()  # has no effect on those that are done
        await asyncio.gather(*tasks, return_exceptions=True)
        for other in tasks.values():
            if other is not winner and (other is not attempt or winner is not None):
                other.close(OVERTAKEN if winner is not None else "")
            if other is not attempt and other is not winner:
                attempt.mark.beside, other.mark.first_token_ns = other.mark, 0  # nobody gets its tokens
    assert winner is not None
    if winner is not attempt:
        winner.overtake()
    return winner


def _hedge(attempt: Attempt, tried: list[Replica], need: Need) -> Attempt | None:
    """A second attempt at another replica, if there is one and the retry budget allows it."""
    pool, flight = attempt.work.pool, attempt.flight
    replica = pool.choose(need, tried)
    if replica is None or replica.full or replica.warming.kept_back or not pool.retries.take(pool.in_flight):
        return None
    pool.tally.hedges += 1
    tried.append(replica)
    return Attempt(attempt.work, flight, replica, need, attempt.until_s, budgeted=True)


def _log_failed(work: Work, replicas: list[str], reason: BackendError | None, *, answered: bool) -> None:
    """Log once for a request, however many replicas failed it; `answered` if another one served it."""
    if replicas:
        pool = work.pool.pool.name
        _log.warning(
            "model.failed", model=work.model.name, pool=pool, replicas=replicas, reason=str(reason), answered=answered
        )


def _midway(error: BackendError) -> ApiError:
    """The error of a client that has a part of its answer."""
    if isinstance(error, RefusedError | BusyError):
        message = "The model stopped in the middle of the answer."
        return errors.unavailable(message, _RETRY_AFTER_S, detail=error.message)
    if isinstance(error, UnreachableError):
        return errors.unavailable("The model's replica was lost in the middle of the answer.", _RETRY_AFTER_S)
    if isinstance(error, SlowError):
        return errors.stage_timeout("model", error.timeout_ms)
    return errors.model_failed(error.message)


def _with(answer: ServerAnswer | None, error: ApiError) -> ApiError:
    """The error as the client gets it: in the server's own words, if it has said some."""
    error.answer = answer
    return error


def _failed(work: Work, flight: Flight, failure: BackendError | None) -> ApiError:
    """The error of a client that has nothing of its answer."""
    model, awaited_s = work.model.name, work.pool.awaited_s
    if isinstance(failure, LostCallError) and _deaths(work) >= MAX_DEATHS:
        return errors.lost_with_prompt(model, flight.lost)
    match failure:
        case SlowError():
            return errors.stage_timeout("model", failure.timeout_ms)
        case None | UnreachableError() if awaited_s is not None:
            message = f"The model {model!r} has no replica that is ready yet: one is starting. Try again in {awaited_s:.0f} s."
            return errors.unavailable(message, awaited_s, reason="no_replica")
        case None:
            message, reason, retry_after_s = "has no replica that is ready", "no_replica", _RETRY_AFTER_S
        case BusyError():
            message, reason, retry_after_s = "has no room for more requests", "servers_full", failure.retry_after_s
        case UnreachableError():
            message, reason, retry_after_s = "is not answering", "no_replica", _RETRY_AFTER_S
        case FailedError():
            return errors.model_failed(failure.message, failure.remedy)
        case _:
            return errors.model_failed(failure.message)
    return errors.unavailable(f"The model {model!r} {message}. Try again in a moment.", retry_after_s, reason=reason)
