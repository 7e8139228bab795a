"""Requests that the gateway makes for a tenant by itself. Each has a row of its own in the ledger, linked to the request that it is for."""

import asyncio
from collections.abc import Awaitable

from inference.backends.fleet import PoolState
from inference.contract.metering.cost import Used, cost_usd, price_now
from inference.core.events import Usage, WholeAnswer
from inference.core.openai.errors import ApiError
from inference.observability.span_export import SpanExport
from inference.observability.spans import Trace, now_ns
from inference.policy.serving import Caller
from inference.request.coalesce import Flight


def begin(cause: Trace, caller: Caller, model: str, state: PoolState, operation: str) -> Trace:
    """The trace of a request for the tenant of `cause`."""
    trace = Trace(now_ns(), None, operation)
    trace.caller = (cause.context.trace_id, cause.id)
    trace.tenant, trace.tier, trace.model = caller.tenant, caller.tier.name, model
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
        trace.http_status, trace.finish_reason = 200, flight.finish_reason
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
        trace.output_tokens = flight.output_tokens
        if flight.pool is not None and (flight.events or flight.vectors):
            used = Used(flight.prompt_tokens, flight.output_tokens, usage.cached_tokens, usage.audio_tokens, images)
            trace.cost_usd = cost_usd(price_now(flight.pool), used)
        trace.finish()
        export.submit(trace)
