"""Requests that the gateway makes for a tenant by itself. Each has a row of its own in the ledger, linked to the request that it is for."""

import asyncio
from collections.abc import Awaitable
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from inference.backends.fleet import PoolState
from inference.contract.metering.cost import Used, cost_usd, price_now
from inference.core.events import Usage, WholeAnswer
from inference.core.fair_queue import Claim
from inference.core.openai.errors import ApiError
from inference.core.passing.request import made
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import Trace, now_ns
from inference.request.coalesce import Flight
from inference.request.generate import generate
from inference.request.parse import ENDPOINTS, Request
from inference.request.route import choose_pool, for_pool
from inference.request.work import Work
from inference.snapshot.serving import Caller, Served, Serving


def begin(cause: Trace, caller: Caller, model: str, state: PoolState, operation: str) -> Trace:
    """The trace of a request for the tenant of `cause`."""
    trace = Trace(now_ns(), None, operation)
    trace.caller = (cause.context.trace_id, cause.id)
    trace.tenant, trace.tier, trace.model = caller.tenant, caller.tier.name, model
    # Of the cache, of which none is asked: it is no request of the tenant's that could have been saved.
    trace.outcome = ""
    trace.policy_version, trace.caller_region = cause.policy_version, cause.caller_region
    trace.show(state.pool)
    return trace


async def answer_of(
    trace: Trace, flight: Flight, state: PoolState, work: Awaitable[None], export: SpanExport, images: int = 0
) -> WholeAnswer | None:
    """What `flight` brings once `work` has ended; None where that is an error."""
    state.hold()
    try:
        trace.join(flight.marks)
        await work
        if flight.error is not None:
            raise flight.error
        trace.http_status, trace.finish_reason = flight.status, flight.finish_reason
        return flight.answer()
    except ApiError as error:
        trace.status, trace.http_status = "rejected" if error.status < 500 else "error", error.status
        trace.error_type, trace.error_stage, trace.shed_reason = error.code, error.stage, error.reason
        error.__traceback__ = None  # its frames hold what holds the error: a circle
        return None
    except asyncio.CancelledError:
        trace.status, trace.http_status, trace.error_type = "cancelled", 499, "cancelled"
        raise
    finally:
        state.release()
        if flight.end_ns:
            trace.leave(flight.end_ns)
        if flight.pool is not None:
            trace.show(flight.pool)
        usage = flight.usage or Usage()
        trace.replica, trace.cold_start = flight.replica, flight.cold_start
        trace.input_tokens, trace.tokens_source = flight.prompt_tokens, flight.tokens_source
        trace.output_tokens, trace.cached_tokens = flight.output_tokens, usage.cached_tokens
        if flight.pool is not None and (flight.events or flight.vectors):
            used = Used(flight.prompt_tokens, flight.output_tokens, usage.cached_tokens, usage.audio_tokens, images)
            trace.cost_usd = cost_usd(price_now(flight.pool), used)
        trace.finish()
        export.submit(trace)


class Helper(NamedTuple):
    """A model of the fleet that answers the gateway's own questions. `name` is what decides its answers as far as the snapshot says:
    variant, model and versions.
    """

    served: Served
    pool: PoolState
    name: bytes


def helper_of(serving: Serving, caller: Caller, model: str, path: str) -> Helper | None:
    """None where the tenant's texts cannot go there: no such model, or none where they may be served."""
    served = serving.models.get(model)
    if served is None:
        return None
    plan = served.plans_for(caller).plain
    if not plan.routes and not plan.fallbacks:
        return None
    request = made(path, ENDPOINTS[path].operation, {"model": model})
    state = choose_pool(serving, plan, request, cacheable=False)
    if not state.available:
        return None
    pool = state.pool
    parts = (model, served.model.prompt_version, pool.variant, pool.model_name, pool.model_version)
    return Helper(served, state, blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest())


async def send(
    serving: Serving,
    caller: Caller,
    helper: Helper,
    path: str,
    document: dict[str, Any],
    cause: Trace,
    export: SpanExport,
    metrics: Metrics,
) -> WholeAnswer | None:
    """The helper's answer; None where that is an error. It counts in demand and cost, and against no limit of the tenant."""
    served, state = helper.served, helper.pool
    model, plan, endpoint = served.model, served.plans_for(caller).plain, ENDPOINTS[path]
    request = Request(made(path, endpoint.operation, {"model": model.name, **document}), endpoint)
    trace = begin(cause, caller, model.name, state, endpoint.operation)
    tier, context = caller.tier, trace.context
    flight = Flight(None, (context.trace_id, trace.id), tier.priority, requests=1)
    metrics.arrived(model.name, tier.name)

    async def work() -> None:
        question, _ = for_pool(request, model, state)
        claim = Claim(tier.name, caller.tenant, tier.priority, tier.weight, 0)
        timeouts, of = serving.timeouts_for(model.name, tier.name), context
        await generate(
            Work(question, model, state, (), served.text, timeouts, claim, of.trace_id, of.flags, plan, request), flight
        )

    try:
        return await answer_of(trace, flight, state, work(), export)
    finally:
        metrics.observe(trace)
