"""Runs one inference: prepares the prompt, waits for a place in a pool, and has it answer."""

from inference.backends.admission import QueueFullError
from inference.core.fair_queue import Charge, Claim
from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.observability.spans import ADMIT, TOKENIZE, Mark, now_ns
from inference.request.attempts import infer
from inference.request.coalesce import Flight
from inference.request.prepare import prepare
from inference.request.route import for_pool
from inference.request.work import Work


async def generate(work: Work, flight: Flight) -> None:
    """Fill `flight` from the pool, else from the first of its fallbacks that answers; where none does, with the pool's own
    ApiError. Cancelling this stops the model.
    """
    if work.pool.pool.name in work.plan.fallbacks and all(it.pool != work.pool.pool.name for it in work.plan.routes):
        flight.count(work.pool.tally, "fallbacks")
    try:
        await _serve(work, flight)
    except ApiError as error:
        failure = error
    else:
        return
    for pool in work.fallbacks:
        if flight.given or not _may_answer_elsewhere(failure):
            break
        if not pool.available:
            continue
        try:
            question, flight.dropped = for_pool(work.request, work.model, pool, work.most)
            flight.count(pool.tally, "fallbacks")
            await _serve(work._replace(pool=pool, question=question), flight)
        except ApiError as error:
            flight.dropped = []
            failure = error if flight.given else failure
        else:
            return
    if failure.reason:
        flight.count(work.pool.tally, "shed")
    flight.land(error=failure)


def _may_answer_elsewhere(error: ApiError) -> bool:
    """Whether it says something of the pool and not of the request."""
    return error.code != "servers_lost" and error.stage in ("queue", "model") and error.status in (429, 502, 503, 504)


async def _serve(work: Work, flight: Flight) -> None:
    """Prepare the prompt for the pool, wait for a place in it, and have it answer. Raises ApiError."""
    tally = work.pool.tally
    flight.count(tally, "arrived")
    tally.lines += work.can_wait
    flight.marks.append(Mark(TOKENIZE, now_ns()))
    prepared = await prepare(work.question, work.model, work.text, work.pool, work.timeouts.tokenizer_ms)
    flight.prompt_tokens, flight.tokens_source = prepared.tokens, prepared.source
    flight.marks.append(Mark(ADMIT, now_ns()))
    claim = work.claim._replace(cost=work.claim.cost + flight.prompt_tokens)
    charge = await _admit(work, claim, flight)
    flight.admitted = True
    if flight.metered:
        flight.wake()
    pool = work.pool.newest  # while it waited, replicas may have come
    pool.hold()
    tally.lines_in_flight += work.can_wait
    try:
        await infer(work if pool is work.pool else work._replace(pool=pool), flight, prepared)
        tally.answered += 1
        tally.input_tokens += max(0, flight.prompt_tokens)
        tally.output_tokens += max(0, flight.output_tokens)
    finally:
        tally.lines_in_flight -= work.can_wait
        pool.release()
        work.pool.admission.settle(claim, flight.used_tokens, charge)
        work.pool.admission.release()


async def _admit(work: Work, claim: Claim, flight: Flight) -> Charge | None:
    admission, tally = work.pool.admission, work.pool.tally
    flight.count(tally, "waits")
    if admission.try_acquire(claim.priority):
        return None
    start_ns = now_ns()
    try:
        return await admission.acquire(claim, work.timeouts.queue_ms / 1000)
    except QueueFullError as error:
        raise errors.overloaded(work.model.name, error.retry_after_s) from None
    except TimeoutError:
        raise errors.stage_timeout("queue", work.timeouts.queue_ms) from None
    finally:
        tally.waited_s += (now_ns() - start_ns) / 1e9
