"""Serves completion requests. Each passes the steps of `inference.request`, in that order."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from inference.core.cache_key import cache_key
from inference.core.normalise import Operation
from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.core.openai.responses import ChatWriter, CompletionWriter
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import LOOKUP, RESPOND, Trace
from inference.policy.serving import Serving
from inference.request.answer import Answer
from inference.request.authenticate import authenticate
from inference.request.cache import SKIPPED, Cache
from inference.request.coalesce import Coalescer, Flight
from inference.request.generate import Work, generate
from inference.request.limits import meter_of
from inference.request.parse import parse, question_of
from inference.request.route import choose_pool, find_model
from inference.request.write_back import WriteBack
from inference.wires.http.exchange import Exchange, Request

_log = structlog.get_logger()


class Completions:
    """`serving` gives the snapshot to obey now, None before there is one. `keepalive_s`: how often a silent stream
    sends a comment.
    """

    def __init__(
        self,
        serving: Callable[[], Serving | None],
        cache: Cache | None,
        export: SpanExport,
        metrics: Metrics,
        *,
        max_messages: int,
        keepalive_s: float,
    ) -> None:
        self._serving = serving
        self._cache = cache
        self._export = export
        self._metrics = metrics
        self._max_messages = max_messages
        self._keepalive_s = keepalive_s
        self._write_back = WriteBack(cache, export)
        self.coalescer = Coalescer()
        self.in_flight = 0

    async def serve(self, operation: Operation, request: Request, out: Exchange) -> None:
        trace = Trace(request.received_ns, request.headers.get(b"traceparent"), operation)
        answer = Answer(trace, out, request.headers.get(b"x-stainless-read-timeout"), self._keepalive_s)
        self.in_flight += 1
        try:
            await self._pass(operation, request, out, trace, answer)
        except ApiError as error:
            answer.refuse(error)
        except asyncio.CancelledError:
            trace.status, trace.http_status = "cancelled", 499
            trace.error_type, trace.error_stage = "client_disconnected", trace.current_stage()
            raise
        except Exception:  # noqa: BLE001  (whatever it is, the client gets an answer and the log the reason)
            _log.exception("request.failed", request=answer.identity)
            answer.refuse(errors.internal(answer.identity))
        finally:
            trace.finish()
            self.in_flight -= 1
            self._metrics.observe(trace)
            self._export.submit(trace)

    async def close(self, timeout_s: float) -> None:
        """Let writes to the cache finish."""
        await self._write_back.close(timeout_s)

    async def _pass(self, operation: Operation, request: Request, out: Exchange, trace: Trace, answer: Answer) -> None:
        """The steps of a request. Raises ApiError at the one that it does not pass."""
        serving = self._serving()
        if serving is None:
            raise errors.unavailable("The gateway has no policy snapshot yet.", 1.0, "gateway")
        timeouts = serving.snapshot.timeouts
        trace.policy_version = serving.snapshot.version

        caller = authenticate(serving, request.headers)
        trace.tenant, trace.tier = caller.tenant, caller.tier.name
        out.known = True
        answer.meter = meter_of(caller)

        body = parse(operation, request.body, self._max_messages)
        model, tokenizer = find_model(serving, body.model)
        trace.model, trace.stream = model.name, body.streams
        if answer.meter is not None:
            answer.meter.enter()
        question = question_of(body, model)
        rule = model.cache
        cacheable = rule.mode == "always" or (rule.mode == "deterministic" and question.deterministic)

        state = choose_pool(serving, model, question, cacheable)
        pool = state.pool
        trace.pool, trace.variant, trace.region = pool.name, pool.variant, pool.region
        writer = (ChatWriter if operation == "chat" else CompletionWriter)(
            answer.identity + trace.id.hex(), int(time.time()), model.name, body.include_usage
        )
        state.hold()  # until the request has ended: a new snapshot may take the pool's replicas away meanwhile
        try:
            key = cache_key(question, model, pool, caller.tenant) if cacheable else None
            if key is not None:
                trace.enter(LOOKUP)
                stored, trace.outcome = (
                    await self._cache.get(key, timeouts.cache_ms / 1000) if self._cache is not None else SKIPPED
                )
                if stored is not None:
                    trace.enter(RESPOND)
                    answer.replay(writer, stored)
                    return

            context, priority = trace.context, caller.tier.priority
            work = Work(question, model, state, tokenizer, timeouts, priority, context.trace_id, context.flags)
            flight, shared = self.coalescer.join(
                key if rule.coalesce else None,
                (context.trace_id, trace.id),
                priority,
                partial(self._generate, key, work),
            )
            try:
                if answer.meter is not None and answer.meter.counts_tokens:
                    flight.metered = True
                if shared:
                    trace.outcome, trace.coalesced_with = "coalesced", flight.leader
                trace.join(flight.marks)
                if body.streams:
                    await answer.stream(writer, flight, timeouts.egress_ms)
                else:
                    await answer.whole(writer, flight)
            finally:
                self.coalescer.leave(flight)
                answer.close(flight, model)
        finally:
            state.release()

    async def _generate(self, key: bytes | None, work: Work, flight: Flight) -> None:
        """The work of a flight: the inference, and then the write to the cache, which its requests do not wait for."""
        work.pool.hold()
        try:
            await generate(work, flight)
            if key is not None and flight.error is None:
                self._write_back.start(key, flight, work.model.cache)
        finally:
            work.pool.release()
