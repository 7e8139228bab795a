"""Serves completion requests. Each passes the steps of `inference.request`, in that order."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from zlib import crc32

import structlog

from inference.backends.fleet import PoolState
from inference.contract.metering.cost import is_free
from inference.contract.metering.text_audit import TextAudit
from inference.contract.plan import Plan, Plans, Step, allowed_regions
from inference.contract.snapshot import Model
from inference.core.cache_control import read as read_control
from inference.core.cache_key import tagged
from inference.core.expected_tokens import OutputMeans, prompt_estimate
from inference.core.fair_queue import Claim
from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.core.openai.shape import takes_long
from inference.core.passing.request import Passed
from inference.core.question import GENERATION
from inference.observability.context import CallerTraces
from inference.observability.metrics import Metrics
from inference.observability.span_export import SpanExport
from inference.observability.spans import LIMIT, RESPOND, Trace
from inference.request import own_requests
from inference.request.answer import Answer
from inference.request.authenticate import authenticate
from inference.request.caching import Caches, Caching
from inference.request.coalesce import Flight
from inference.request.degrade import Degraded, degrade, least
from inference.request.guard.guards import Guards, passes
from inference.request.images import check_media
from inference.request.limits import Limits
from inference.request.long_body import aside, at_once_or_aside, read_long
from inference.request.parse import Endpoint
from inference.request.route import (
    check_output,
    check_priced,
    check_regions,
    choose_pool,
    fallbacks_of,
    find_model,
    for_pool,
)
from inference.request.work import Work
from inference.snapshot.serving import Caller, Serving
from inference.wires.http.exchange import Exchange, Request

_log = structlog.get_logger()

_HASHES = 10**9  # the ledger takes no larger number
_ITS_TIME = 0.9  # of a stage's time: who joined a flight at its beginning has waited for as long as that


class Completions:
    """`serving` gives the snapshot to obey now, None before there is one. `keepalive_s`: how often a silent stream
    sends a comment. `region` is where requests come from, unless their key may say so and does.
    """

    def __init__(
        self,
        serving: Callable[[], Serving | None],
        caches: Caches,
        limits: Limits,
        guards: Guards,
        export: SpanExport,
        metrics: Metrics,
        *,
        keepalive_s: float,
        region: str = "",
    ) -> None:
        self._serving = serving
        self.caches = caches
        self._limits, self.guards = limits, guards
        self._outputs = OutputMeans()
        self._export = export
        self._metrics = metrics
        self._keepalive_s = keepalive_s
        self._region = region
        self._caller_traces = CallerTraces()
        self.in_flight = 0

    async def serve(self, endpoint: Endpoint, request: Request, out: Exchange) -> None:
        trace = Trace(request.received_ns, request.headers.get(b"traceparent"), endpoint.operation)
        trace.leave_full(self._caller_traces)
        deadline = request.headers.get(b"x-stainless-read-timeout")
        answer = Answer(trace, out, request.path, deadline, self._keepalive_s)
        self.in_flight += 1
        try:
            try:
                await self._pass(endpoint, request, out, trace, answer)
            except ApiError as error:
                if error.status < 500 and answer.meter is None and answer.caller is not None:
                    await self.count(answer.caller, answer)
                raise
        except ApiError as error:
            answer.refuse(error)
            error.__traceback__ = None  # its frames hold what holds the error: a circle
        except asyncio.CancelledError:
            trace.status, trace.http_status = "cancelled", 499
            trace.error_type, trace.error_stage = "client_disconnected", trace.current_stage()
            raise
        except Exception:  # noqa: BLE001  (whatever it is, the client gets an answer and the log the reason)
            _log.exception("request.failed", request=answer.identity)
            answer.refuse(errors.internal(answer.identity))
        finally:
            if answer.meter is not None:
                answer.meter.leave()
            trace.finish()
            self.in_flight -= 1
            self._metrics.observe(trace)
            self._export.submit(trace)

    async def count(self, caller: Caller, answer: Answer | None = None) -> None:
        """Count a request that no model gets against the limits of its caller. Raises ApiError where one is reached."""
        serving = self._serving()
        if caller.limits and serving is not None:
            timeout_s = serving.snapshot.timeouts.cache_ms / 1000
            meter = self._limits.begin(caller.limits, caller.tier.name, 0, timeout_s)
            try:
                await meter.entered()
            finally:
                if answer is None:
                    meter.leave()
                else:
                    answer.meter = meter  # which it leaves at its end

    async def close(self, timeout_s: float) -> None:
        """Let writes to the cache finish."""
        self.caches.refreshes.close()
        await self.caches.write_back.close(timeout_s)

    async def _pass(self, endpoint: Endpoint, request: Request, out: Exchange, trace: Trace, answer: Answer) -> None:
        """The steps of a request. Raises ApiError at the one that it does not pass."""
        serving = self._serving()
        if serving is None:
            raise errors.unavailable("The gateway has no policy snapshot yet.", 1.0, "gateway", reason="no_policy")
        trace.policy_version = serving.snapshot.version

        caller = authenticate(serving, request.headers)
        trace.tenant, trace.tier = caller.tenant, caller.tier.name
        trace.can_wait, trace.user, trace.key = caller.can_wait, caller.user, caller.key
        region = (caller.names_region and request.headers.get(b"x-weir-region", b"").decode("latin-1")) or self._region
        if key_of_client := request.headers.get(b"idempotency-key"):
            trace.idempotency_key = 1 + crc32(key_of_client, crc32(caller.tenant.encode())) % _HASHES
        else:
            trace.repeated = request.headers.get(b"x-stainless-retry-count", b"0") != b"0"
        out.known = True

        answer.caller = caller
        if caller.audit is not None:
            hashing = partial(TextAudit, caller.audit, request.body)
            answer.audited_by(await at_once_or_aside(hashing, len(request.body)))
        if request.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise errors.encoded()
        content_type = request.headers.get(b"content-type", b"")
        large, checked = takes_long(request.body), None  # then others go on meanwhile
        if large:
            read = partial(read_long, endpoint, request, serving, caller)
            body, served, too_long, checked = await aside(read)
        else:
            body, too_long = endpoint.parse(request.path, request.body, content_type), None
            served = find_model(serving, body.passed.model, caller)
        model, plans = served.model, served.plans_for(caller)
        timeouts = serving.timeouts_for(model.name, caller.tier.name)
        regions = allowed_regions(model, caller.regions)
        trace.model, trace.stream, trace.caller_region = model.name, body.passed.streams, region or served.home
        if too_long is not None:
            raise too_long
        if caller.guard is not None and (checked or not passes(body, endpoint, caller.guard.requests)):
            body = await self.guards.request(body, checked, endpoint, content_type, caller.guard.requests, trace)
        passed = body.passed
        if passed.remote_media:
            await check_media(passed, model)
        answer.of(body, model)
        control = read_control(request.headers)
        if control.tags or control.grounds:
            marks = tagged(control.tags, serving.snapshot.tag_purges, control.grounds)
            caller = caller._replace(tags=caller.tags + marks)
        plan = plans.only or self._plan(plans, caller, region, passed, trace, answer)
        cacheable = plan.cache == "always" or (plan.cache == "deterministic" and passed.deterministic)

        if not plan.routes and not plan.fallbacks:
            self._metrics.arrived(model.name, trace.tier)
            raise errors.outside_regions(model.name, caller.tenant, regions or ())
        state = choose_pool(serving, plan, passed, cacheable)
        if state.passes:
            if not plan.max_output_tokens:  # a rule's is in place of the model's, and lowers
                check_output(passed, model)
        elif large:
            await aside(partial(body.question, model, state.pool.unknown_parameters))
        question, unused = for_pool(body, model, state, plan.max_output_tokens)
        self._metrics.arrived(model.name, trace.tier)
        step, whole = plan.step, None
        if step is not None:
            if step.shed:
                trace.show(state.pool)
                raise self._refused(state, model, step, answer)
            whole = Degraded(state, question, unused, False)
            state, question, unused, changed = degrade(serving, plan, step, model, body, whole)
            if not changed:
                whole = None
        pool = state.pool
        trace.show(pool)
        answer.dropped = unused
        state.hold()  # until the request has ended: a new snapshot may take the pool's replicas away meanwhile
        generates = question.operation in GENERATION
        expected = self._outputs.expected(model.name, question.max_tokens) if generates else 0
        try:
            if caller.limits:  # counted in Redis, in the same write as the lookup below
                if caller.has_budget:
                    check_priced(serving, plan, model, pool)
                tokens = prompt_estimate(len(request.body), model.max_prompt_tokens) + expected
                answer.meter = self._limits.begin(caller.limits, caller.tier.name, tokens, timeouts.cache_ms / 1000)
            caching = Caching(
                self.caches,
                serving,
                caller,
                model,
                pool,
                question,
                regions,
                control,
                timeouts.cache_ms / 1000,
                trace,
                cacheable,
                step is None and control.is_usual,
            )
            if caching.looks:
                stored = await caching.look_up(whole)
                if caching.is_better:
                    whole = None
            else:
                stored = None
                if answer.meter is not None:
                    trace.enter(LIMIT)
            if answer.meter is not None:
                await answer.meter.entered()
            if step is not None:
                if stored is None and step.cached_only:
                    raise self._refused(state, model, step, answer)
                if whole is not None:
                    answer.degraded_by(step, state)

            def work_of(trace: Trace, *, can_wait: bool) -> Work:
                tier, context = caller.tier, trace.context
                priority = plan.priority or tier.priority
                return Work(
                    question,
                    model,
                    state,
                    fallbacks_of(serving, plan, state),
                    served.text,
                    timeouts,
                    Claim(tier.name, caller.tenant, priority, tier.weight, expected),
                    context.trace_id,
                    context.flags,
                    plan,
                    body,
                    least(plan.max_output_tokens, step.max_output_tokens) if step else plan.max_output_tokens,
                    can_wait,
                    control.ttl_of(model.cache, question.operation, plan.cache_ttl_s),
                    control.stale_for(model.cache, question.operation),
                    self.guards.answers(caller.guard, trace) if caller.guard is not None else None,
                )

            if stored is None:
                work = work_of(trace, can_wait=caller.can_wait)
                stored = await caching.look_further(answer, partial(self._beside, caching, work, caller))
            if stored is not None:
                trace.enter(RESPOND)
                if caching.is_stale:
                    answer.about_cache = b"; stale"
                answer.replay(stored, caching.pool, caching.entry)
                if not caching.refreshes:
                    return
                trace = caching.trace = own_requests.begin(trace, caller, model.name, state, question.operation)
                work = work_of(trace, can_wait=True)
                self.caches.refreshes.start(caching.entry, trace, work, partial(self._generate, caching, work))
                return
            if control.only_if_cached:
                raise errors.not_cached()

            if caching.beside is None:
                check_regions(serving, served, caller, (state, *work.fallbacks), regions)
            if caller.is_lane:
                answer.room = partial(state.room, work.claim.priority)
            outcome = trace.outcome
            while not await self._fly(caching, work, answer):
                trace.outcome, trace.coalesced_with = outcome, None
                trace.stay()
        finally:
            state.release()

    def _beside(self, caching: Caching, work: Work, caller: Caller) -> Flight | None:
        """The inference, begun beside a look-up whose hit cancels it; None where that may cost money or keep a place from others, or
        where rules see what is thrown away.
        """
        if caller.can_wait or caller.is_lane or work.guarded is not None or caching.control.only_if_cached:
            return None
        priority, pools = work.claim.priority, (work.pool, *work.fallbacks)
        if not all(is_free(it.pool) for it in pools) or not work.pool.spare(priority):
            return None
        return caching.begin_beside(priority, partial(self._generate, caching, work))

    async def _fly(self, caching: Caching, work: Work, answer: Answer) -> bool:
        """Have the request answered by a flight. False where it joined one that ran out of a stage's time, of which it has some left:
        then it waits for another. Raises ApiError.
        """
        joined_s, trace = time.monotonic(), caching.trace
        if caching.beside is not None:
            flight, shared = caching.beside, False
        else:
            flight, shared = caching.join(work.claim.priority, partial(self._generate, caching, work))
        try:
            if answer.meter is not None and answer.meter.counts_tokens:
                flight.metered = True
            if shared:
                trace.outcome, trace.coalesced_with = "coalesced", flight.leader
            trace.join(flight.marks)
            if trace.stream:
                await answer.stream(flight, work.timeouts.egress_ms)
            else:
                await answer.whole(flight)
        except ApiError as error:
            waited_ms = 1000 * (time.monotonic() - joined_s)
            if shared and error is flight.error and not flight.given and waited_ms < _ITS_TIME * error.timeout_ms:
                return False
            raise
        finally:
            self.caches.coalescer.leave(flight)
            answer.close(flight, work.question.images)
        return True

    def _plan(self, plans: Plans, caller: Caller, region: str, passed: Passed, trace: Trace, answer: Answer) -> Plan:
        """What policies want done with the request."""
        plan = plans.choose(caller.tier.name, caller.tenant, region, lambda: passed.prompt_tokens)
        trace.policy_rule = plan.rule
        answer.follow(plan)
        return plan

    def _refused(self, state: PoolState, model: Model, step: Step, answer: Answer) -> ApiError:
        """The answer to a request that the step does not let through. The pool was wanted for all the same."""
        state.tally.arrived += 1
        state.tally.lines += answer.caller is not None and answer.caller.can_wait
        state.tally.shed += 1
        answer.degraded_by(step, state)
        return errors.refused_by_policy(model.name, step.name, step.policy, not step.shed, step.retry_after_s)

    async def _generate(self, caching: Caching, work: Work, flight: Flight) -> None:
        """The work of a flight."""
        pools = (work.pool, *work.fallbacks)
        for pool in pools:
            pool.hold()
        try:
            await caching.generate(work, flight)
            if flight.error is None and work.question.operation in GENERATION and not flight.uncounted:
                self._outputs.observe(work.model.name, flight.output_tokens)
        finally:
            for pool in pools:
                pool.release()
