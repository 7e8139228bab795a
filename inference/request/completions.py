"""One request from its last byte read to the last byte of its answer: authenticate, parse, key, look up, generate,
answer.
"""

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial

import structlog

from inference.backends.fleet import PoolState
from inference.core import normalise
from inference.core.cache_key import cache_key, draw
from inference.core.normalise import Operation, Question
from inference.core.openai import errors, responses, schema
from inference.core.openai.errors import ApiError
from inference.core.openai.responses import ChatWriter, CompletionWriter
from inference.core.routing import choose_route
from inference.core.snapshot import CacheRule, Model, key_digest
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import LOOKUP, RESPOND, Trace, Written, now_ns
from inference.policy.serving import Caller, Serving
from inference.request.cache import Answer, Cache
from inference.request.coalesce import Coalescer, Flight
from inference.request.generate import Work, generate
from inference.request.limits import Meter
from inference.wires.http.exchange import EVENT_STREAM, JSON, Exchange, Headers, Request

_log = structlog.get_logger()
_DEADLINE_MARGIN_S = 0.05  # answered this long before the client gives up, so that it hears why


def authenticate(serving: Serving, headers: dict[bytes, bytes]) -> Caller:
    """Whose key this is. Raises ApiError.

    Keys are compared by their digests through a hash table: what its timing could tell is about a digest, which does
    not give the key.
    """
    kind, _, key = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() != b"bearer" or not key:
        raise errors.missing_key()
    caller = serving.callers.get(key_digest(key.strip().decode("utf-8", "replace")))
    if caller is None:
        raise errors.wrong_key()
    return caller


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
        self._writes: set[asyncio.Task[None]] = set()
        self.coalescer = Coalescer()
        self.in_flight = 0

    async def serve(self, operation: Operation, request: Request, out: Exchange) -> None:
        trace = Trace(request.received_ns, request.headers.get(b"traceparent"), operation)
        self.in_flight += 1
        job = _Job(self, trace, request, out)
        try:
            await job.run()
        except ApiError as error:
            job.refuse(error)
        except asyncio.CancelledError:
            trace.status, trace.http_status = "cancelled", 499
            trace.error_type, trace.error_stage = "client_disconnected", trace.current_stage()
            raise
        except Exception:  # noqa: BLE001  (whatever it is, the client gets an answer and the log the reason)
            _log.exception("request.failed", request=job.identity)
            job.refuse(errors.internal(job.identity))
        finally:
            job.leave()
            trace.finish()
            self.in_flight -= 1
            self._metrics.observe(trace)
            self._export.submit(trace)

    async def close(self, timeout_s: float) -> None:
        """Let writes to the cache finish."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=timeout_s)

    def write_back(self, key: bytes, flight: Flight, rule: CacheRule) -> None:
        """Store a flight's answer once its requests have theirs."""
        if self._cache is not None and self._cache.up:
            task = asyncio.get_running_loop().create_task(self._write(self._cache, key, flight, rule.ttl_s))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def _write(self, cache: Cache, key: bytes, flight: Flight, ttl_s: int) -> None:
        start_ns = now_ns()
        answer = Answer("".join(flight.texts), flight.finish_reason, flight.prompt_tokens, flight.output_tokens)
        try:
            stored = await cache.put(key, answer, ttl_s)
        except Exception:  # noqa: BLE001  (nobody waits for this task, so it says itself what went wrong)
            _log.exception("cache.write_failed", request=flight.leader[0].hex())
            stored = False
        self._export.submit(Written(*flight.leader, start_ns, now_ns(), stored))

    async def generate(self, key: bytes | None, work: Work, flight: Flight) -> None:
        """What a flight does: the inference, and then the write, which its requests do not wait for."""
        await generate(work, flight)
        if key is not None and flight.error is None:
            self.write_back(key, flight, work.model.cache)

    async def look_up(self, key: bytes, timeout_s: float) -> tuple[Answer | None, str]:
        if self._cache is None:
            return None, "skipped"
        answer, skipped = await self._cache.get(key, timeout_s)
        return answer, "skipped" if skipped else "miss" if answer is None else "hit"


class _Job:
    """One request's variables."""

    def __init__(self, completions: Completions, trace: Trace, request: Request, out: Exchange) -> None:
        self._completions = completions
        self._trace = trace
        self._request = request
        self._out = out
        self._flight: Flight | None = None
        self._model: Model | None = None
        self._pool: PoolState | None = None
        self._meter: Meter | None = None  # where the tenant has a limit
        self.identity = trace.context.trace_id.hex()
        self._deadline_s = _deadline_s(request.headers.get(b"x-stainless-read-timeout"))

    async def run(self) -> None:
        trace, completions = self._trace, self._completions
        serving = completions._serving()
        if serving is None:
            raise errors.unavailable("The gateway has no policy snapshot yet.", 1.0, "gateway")
        snapshot = serving.snapshot
        trace.policy_version = snapshot.version
        caller = authenticate(serving, self._request.headers)
        trace.tenant, trace.tier = caller.tenant, caller.tier.name
        self._out.known = True
        if caller.requests is not None or caller.tokens is not None:
            self._meter = Meter(caller)
        body = self._parse()
        served = serving.models.get(body.model)
        if served is None:
            raise errors.refused_model(body.model) if serving.refused(body.model) else errors.no_such_model(body.model)
        model = self._model = served.model
        trace.model, trace.stream = model.name, body.streams
        if self._meter is not None:
            self._meter.enter()
        question = _question(body, model)
        rule = model.cache
        cacheable = rule.mode == "always" or (rule.mode == "deterministic" and question.deterministic)
        route = choose_route(
            model.routes,
            lambda pool: serving.pools[pool].available,
            draw(question) if cacheable and len(model.routes) > 1 else random.random(),  # noqa: S311
        )
        state = self._pool = serving.pools[route.pool]
        state.hold()  # until `leave`: a new snapshot may take its replicas away meanwhile
        pool = state.pool
        trace.pool, trace.variant, trace.region = pool.name, pool.variant, pool.region
        writer = (ChatWriter if trace.operation == "chat" else CompletionWriter)(
            self.identity + trace.id.hex(), int(time.time()), model.name, body.include_usage
        )
        key: bytes | None = None
        if cacheable:
            key = cache_key(question, model, pool, caller.tenant)
            trace.enter(LOOKUP)
            answer, trace.outcome = await completions.look_up(key, snapshot.timeouts.cache_ms / 1000)
            if answer is not None:
                trace.enter(RESPOND)
                self._replay(writer, answer)
                return
        work = Work(
            question,
            model,
            state,
            served.tokenizer,
            snapshot.timeouts,
            caller.tier.priority,
            trace.context.trace_id,
            trace.context.flags,
        )
        flight, shared = completions.coalescer.join(
            key if rule.coalesce else None,
            (trace.context.trace_id, trace.id),
            work.priority,
            partial(completions.generate, key, work),
        )
        self._flight = flight
        if self._meter is not None and self._meter.counts_tokens:
            flight.metered = True
        if not shared:
            assert flight.task is not None
            state.hold()
            flight.task.add_done_callback(state.release)
        trace.join(flight.marks)
        if shared:
            trace.outcome = "coalesced"
            trace.coalesced_with = flight.leader
        if body.streams:
            await self._stream(writer, flight, snapshot.timeouts.egress_ms)
        else:
            await self._whole(writer, flight)

    def _parse(self) -> schema.ChatRequest | schema.CompletionRequest:
        if self._trace.operation == "chat":
            return schema.decode_chat(self._request.body, self._completions._max_messages)
        return schema.decode_completion(self._request.body)

    # The three ways to answer ---------------------------------------------------------------------

    def _replay(self, writer: ChatWriter, answer: Answer) -> None:
        trace, out = self._trace, self._out
        usage = (answer.prompt_tokens, answer.output_tokens)
        trace.http_status, trace.finish_reason = 200, answer.finish_reason
        trace.input_tokens, trace.output_tokens = usage
        if self._meter is not None:
            self._meter.charge(sum(usage))
        if trace.stream:
            out.start_stream(self._headers(EVENT_STREAM))
            out.end_stream(writer.first() + writer.text(answer.text) + writer.last(answer.finish_reason, *usage))
            trace.ttft_ns = now_ns() - trace.start_ns
        else:
            out.respond(200, self._headers(JSON), writer.whole(answer.text, answer.finish_reason, *usage))

    async def _whole(self, writer: ChatWriter, flight: Flight) -> None:
        while not flight.done:
            await self._changed(flight, None)
        self._landed(flight)
        if flight.error is not None:
            raise flight.error
        body = writer.whole("".join(flight.texts), flight.finish_reason, flight.prompt_tokens, flight.output_tokens)
        self._out.respond(200, self._headers(JSON), body)
        self._trace.http_status = 200

    async def _stream(self, writer: ChatWriter, flight: Flight, egress_ms: int) -> None:
        trace, out = self._trace, self._out
        sent = 0
        while True:
            done = flight.done  # before the texts: none is added after it
            if done:
                self._landed(flight)
                if flight.error is not None and not out.started:
                    raise flight.error  # with a status of its own, though there are tokens: the client may try again
            texts = flight.texts[sent:] if sent else flight.texts
            data = b"".join(map(writer.text, texts)) if texts else b""
            if sent == 0 and (data or done):
                if not out.started:
                    self._begin()
                data = writer.first() + data
            sent += len(texts)
            if flight.error is not None:
                if data:
                    out.write(data)
                raise flight.error
            if done:
                data += writer.last(flight.finish_reason, flight.prompt_tokens, flight.output_tokens)
            if data:
                out.write(data)
                if trace.ttft_ns < 0:
                    trace.ttft_ns = now_ns() - trace.start_ns
            if out.blocked:
                await self._wait_for_reader(egress_ms)
            if done:
                break
            if not await self._changed(flight, self._completions._keepalive_s):
                if not out.started:
                    self._begin()
                out.write(responses.COMMENT)
        out.end_stream()

    def _begin(self) -> None:
        """The status goes out with the first token, not before: until then a failure can still have a status of its
        own.
        """
        self._out.start_stream(self._headers(EVENT_STREAM))
        self._trace.http_status = 200

    async def _wait_for_reader(self, egress_ms: int) -> None:
        try:
            await self._out.drained(egress_ms / 1000)
        except TimeoutError:
            raise errors.stage_timeout("egress", egress_ms) from None

    async def _changed(self, flight: Flight, at_most_s: float | None) -> bool:
        """Wait for the flight; False when `at_most_s` passed first. Raises ApiError when the client's own deadline
        has passed.
        """
        trace = self._trace
        left_s = 3600.0
        if self._deadline_s and trace.ttft_ns < 0:
            left_s = self._deadline_s - _DEADLINE_MARGIN_S - (now_ns() - trace.start_ns) / 1e9
            if left_s <= 0:
                raise errors.deadline_missed(trace.current_stage(), self._deadline_s)
        if at_most_s is None or left_s < at_most_s:
            await flight.changed(left_s)
            changed = True
        else:
            changed = await flight.changed(at_most_s)
        if self._meter is not None:
            self._meter.charge(flight.used_tokens)
        return changed

    # The end --------------------------------------------------------------------------------------

    def _landed(self, flight: Flight) -> None:
        trace = self._trace
        trace.leave(flight.end_ns)
        trace.finish_reason = flight.finish_reason

    def leave(self) -> None:
        """Let go of the shared work, and note what is known of it."""
        flight, trace = self._flight, self._trace
        if self._pool is not None:
            self._pool.release()
        if flight is None:
            return
        self._completions.coalescer.leave(flight)
        if self._meter is not None:
            self._meter.charge(flight.used_tokens)
        trace.replica, trace.cold_start = flight.replica, flight.cold_start
        trace.input_tokens, trace.output_tokens = flight.prompt_tokens, flight.output_tokens
        model = self._model
        if model is not None and trace.outcome != "coalesced" and flight.prompt_tokens >= 0 and flight.texts:
            prompt_usd = flight.prompt_tokens * model.usd_per_1k_prompt_tokens
            trace.cost_usd = (prompt_usd + flight.output_tokens * model.usd_per_1k_output_tokens) / 1000

    def refuse(self, error: ApiError) -> None:
        """Tell the client what went wrong: with a status while that is possible, as an event in a stream that has
        begun.
        """
        trace, out = self._trace, self._out
        if trace.marks[-1].stage is not RESPOND:
            trace.enter(RESPOND)
        trace.status = "rejected" if error.status < 500 else "error"
        trace.http_status = error.status
        trace.error_type, trace.error_stage, trace.error_message = (
            error.code,
            error.stage,
            error.detail or error.message,
        )
        if not out.started:
            headers = [*self._headers(JSON), *error.headers()]
            out.respond(error.status, headers, error.body())
        elif error.stage == "egress":
            out.abort()  # it does not read: nothing more can be said to it
        else:
            out.write(responses.error_event(error.body()))
            out.end_stream()

    def _headers(self, content_type: tuple[bytes, bytes]) -> Headers:
        headers = [
            content_type,
            (b"x-request-id", self.identity.encode()),
            (b"x-weir-cache", self._trace.outcome.encode()),
        ]
        if self._meter is not None:
            headers += self._meter.headers()
        return headers


def _question(body: schema.ChatRequest | schema.CompletionRequest, model: Model) -> Question:
    if isinstance(body, schema.ChatRequest):
        return normalise.chat(body, model.max_output_tokens)
    return normalise.completion(body, model.max_output_tokens)


def _deadline_s(header: bytes | None) -> float:
    """The client's read timeout in seconds; 0 where it has none."""
    try:
        deadline_s = float(header) if header else 0.0
    except ValueError:
        return 0.0
    return deadline_s if 0 < deadline_s < 86_400 else 0.0
