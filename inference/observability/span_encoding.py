"""Encodes the spans of docs/architecture.md of requests that have ended."""

from functools import lru_cache

from inference.contract.metering.spending import KEY_ATTRIBUTE
from inference.contract.stages import INTERNAL
from inference.core import otlp
from inference.core.routing.balance import Weighed
from inference.observability.context import span_id, span_ids
from inference.observability.spans import INFER, LOOKUP, WRITE, Mark, OwnCall, Stage, Trace, Written

_BESIDE = otlp.attribute("weir.beside", True)
_LEFT = frozenset(("client_disconnected", "cancelled", "overtaken"))
"""`error.type` of attempts that nobody waited for any more: their requests had left, or a hedge was faster."""


@lru_cache(maxsize=4096)
def _attempt_attributes(replica: str, pool: str, attempt: int, error: str, retried: bool) -> bytes:
    """The attributes of an attempt. There are few combinations, so each is encoded once; likewise below."""
    values: dict[str, otlp.Value] = {
        "weir.stage": INFER.stage,
        "weir.replica": replica,
        "weir.pool": pool,
        "weir.attempt": attempt,
    }
    if error:
        values["error.type"] = error
    if retried:
        values["weir.retried"] = True
    return b"".join(otlp.attribute(key, value) for key, value in values.items())


def _attempt_error(trace: Trace, mark: Mark, end_ns: int) -> str:
    """The `error.type` of an attempt, as this request saw it. If the request left before the attempt ended, it is the
    request's own.
    """
    if 0 < mark.end_ns <= end_ns or not trace.error_type:
        return mark.error
    return trace.error_type if trace.error_stage == INFER.stage else "cancelled"


_candidates, _sequences = otlp.integers("weir.route.candidates"), otlp.integers("weir.route.sequences")
_tokens_ahead = otlp.integers("weir.route.tokens_ahead")
_cached_tokens = otlp.integers("weir.route.cached_tokens")
_expected_ms, _next_ms = otlp.doubles("weir.route.expected_ms"), otlp.doubles("weir.route.next_ms")
_kv_use = otlp.doubles("weir.route.kv_use")
_HAS_ADAPTER = {given: otlp.attribute("weir.route.has_adapter", given) for given in (True, False)}


def _choice(weighed: Weighed) -> bytes:
    """What the choice of an attempt's replica was made of; what is not known is left out."""
    out = _candidates(weighed.candidates) + _expected_ms(1000 * weighed.expected_s)
    out += _sequences(round(weighed.sequences)) + _tokens_ahead(round(max(0.0, weighed.tokens_ahead)))
    out += _cached_tokens(round(max(0.0, weighed.cached_tokens)))
    if weighed.next_s is not None:
        out += _next_ms(1000 * weighed.next_s)
    if weighed.kv_use is not None:
        out += _kv_use(weighed.kv_use)
    return out if weighed.has_adapter is None else out + _HAS_ADAPTER[weighed.has_adapter]


@lru_cache(maxsize=8)
def _tokens_source(source: str) -> bytes:
    return otlp.attribute("weir.tokens.source", source) if source else b""


@lru_cache(maxsize=4096)
def _key(name: str) -> bytes:
    return otlp.attribute(KEY_ATTRIBUTE, name)


@lru_cache(maxsize=4096)
def _stage_attributes(stage: Stage, outcome: str) -> bytes:
    out = otlp.attribute("weir.stage", stage.stage)
    if stage is LOOKUP:
        out += otlp.attribute("weir.cache.outcome", outcome)
    if stage is LOOKUP or stage is WRITE:
        out += otlp.attribute("db.system.name", "redis")
        out += otlp.attribute("db.operation.name", "GET" if stage is LOOKUP else "SET")
    return out


@lru_cache(maxsize=4096)
def _stage_shape(stage: Stage, outcome: str) -> otlp.Shape:
    return otlp.shape(stage.span, stage.kind, _stage_attributes(stage, outcome))


_cost_usd, _first_chunk_s = otlp.doubles("weir.cost_usd"), otlp.doubles("gen_ai.response.time_to_first_chunk")
_input_tokens = otlp.integers("gen_ai.usage.input_tokens")
_cached_input = otlp.integers("gen_ai.usage.cache_read.input_tokens")
_cache_hits, _cache_inputs = otlp.integers("weir.cache.hits"), otlp.integers("weir.cache.inputs")
_output_tokens = otlp.integers("gen_ai.usage.output_tokens")
_prompt_bytes, _answer_bytes = otlp.integers("weir.audit.prompt_bytes"), otlp.integers("weir.audit.answer_bytes")
_ttft_ns, _idempotency_key = otlp.integers("weir.ttft_ns"), otlp.integers("weir.idempotency_key")


@lru_cache(maxsize=4096)
def _root_attributes(
    operation: str,
    model: str,
    stream: bool,
    http_status: int,
    variant: str,
    pool: str,
    replica: str,
    region: str,
    caller_region: str,
    tier: str,
    tenant: str,
    status: str,
    outcome: str,
    cold_start: bool,
    policy_version: int,
    finish_reason: str,
    error_type: str,
    error_stage: str,
    shed_reason: str,
    policy_rule: str,
    degraded: str,
    repeated: bool,
    can_wait: bool,
) -> bytes:
    values: dict[str, otlp.Value] = {
        "weir.request": True,
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "weir",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.request.stream": stream,
        "http.response.status_code": http_status,
        "weir.model": model,
        "weir.variant": variant,
        "weir.pool": pool,
        "weir.replica": replica,
        "weir.region": region,
        "weir.caller_region": caller_region,
        "weir.tier": tier,
        "weir.tenant": tenant,
        "weir.status": status,
        "weir.cache.outcome": outcome,
        "weir.cold_start": cold_start,
        "weir.policy_version": policy_version,
    }
    if finish_reason:
        values["gen_ai.response.finish_reasons"] = (finish_reason,)
    if error_type:
        values |= {"error.type": error_type, "weir.error_stage": error_stage}
    if shed_reason:
        values["weir.shed_reason"] = shed_reason
    if policy_rule:
        values["weir.policy.rule"] = policy_rule
    if degraded:
        values["weir.degraded"] = degraded
    if repeated:
        values["weir.repeated"] = True
    if can_wait:
        values["weir.can_wait"] = True
    return b"".join(otlp.attribute(key, value) for key, value in values.items())


def encode_trace(trace: Trace, offset_ns: int) -> bytes:
    """All spans of a request that has ended, as fields of a ScopeSpans. `offset_ns` is wall clock minus monotonic."""
    trace_id, parent_id, _ = trace.context
    root_id, outcome = trace.id, trace.outcome
    intervals = trace.intervals()
    ids, at = span_ids(len(intervals)), 0
    out: list[bytes] = []
    for mark, start, end in intervals:
        identity = ids[at : at + 8]
        at += 8
        if mark.stage is INFER:
            out.append(_encode_attempt(trace, mark, start, end, offset_ns, identity))
        else:
            shape = _stage_shape(mark.stage, outcome)
            out.append(otlp.shaped(shape, trace_id, identity, root_id, start + offset_ns, end + offset_ns))
    rest = _root_attributes(
        trace.operation,
        trace.model,
        trace.stream,
        trace.http_status,
        trace.variant,
        trace.pool,
        trace.replica,
        trace.region,
        trace.caller_region,
        trace.tier,
        trace.tenant,
        trace.status,
        trace.outcome,
        trace.cold_start,
        trace.policy_version,
        trace.finish_reason,
        trace.error_type,
        trace.error_stage,
        trace.shed_reason,
        trace.policy_rule,
        trace.degraded,
        trace.repeated,
        trace.can_wait,
    )
    if trace.cost_usd is not None:
        rest += _cost_usd(trace.cost_usd)
    if trace.caller is not None:
        rest += otlp.link(*trace.caller)
    if trace.guarded:
        rest += otlp.attribute("weir.guard", tuple(trace.guarded))
    if (audit := trace.audit) is not None:
        rest += otlp.attribute("weir.audit.prompt", str(audit.prompt)) + _prompt_bytes(audit.prompt.size_bytes)
        if audit.answer is not None:
            rest += otlp.attribute("weir.audit.answer", str(audit.answer)) + _answer_bytes(audit.answer.size_bytes)
    if trace.key:
        rest += _key(trace.key)
    if trace.user:
        rest += otlp.attribute("enduser.pseudo.id", trace.user)
    if trace.idempotency_key:
        rest += _idempotency_key(trace.idempotency_key)
    if trace.input_tokens >= 0:
        rest += _input_tokens(trace.input_tokens) + _tokens_source(trace.tokens_source)
    if trace.cached_tokens >= 0:
        rest += _cached_input(trace.cached_tokens)
    if trace.inputs is not None:
        rest += _cache_hits(trace.inputs[0]) + _cache_inputs(trace.inputs[1])
    if trace.output_tokens >= 0:
        rest += _output_tokens(trace.output_tokens)
    if trace.ttft_ns >= 0:
        rest += _ttft_ns(trace.ttft_ns) + _first_chunk_s(trace.ttft_ns / 1e9)
    out.append(
        otlp.span(
            trace_id,
            trace.id,
            parent_id,
            f"{trace.operation} {trace.model}" if trace.model else trace.operation,
            otlp.SERVER,
            trace.start_ns + offset_ns,
            trace.end_ns + offset_ns,
            rest,
            error=trace.error_message if trace.status == "error" else None,
        )
    )
    return b"".join(out)


def _encode_attempt(trace: Trace, mark: Mark, start: int, end: int, offset_ns: int, identity: bytes) -> bytes:
    """The span of an attempt. `identity` is for one that needs none of its own."""
    error = _attempt_error(trace, mark, end)
    rest = _attempt_attributes(mark.replica, mark.pool, mark.attempt, error, mark.retried)
    if mark in trace.beside:
        rest += _BESIDE
    if mark.weighed is not None:
        rest += _choice(mark.weighed)
    if start <= mark.first_token_ns <= end:
        rest += otlp.event(mark.first_token_ns + offset_ns, "first_token")
    if trace.coalesced_with is None:
        identity = mark.id or identity
    else:  # under an id of its own, because Triton's spans are children of the leader's span
        rest += otlp.link(*trace.coalesced_with)
    return otlp.span(
        trace.context.trace_id,
        identity,
        trace.id,
        INFER.span,
        INFER.kind,
        start + offset_ns,
        end + offset_ns,
        rest,
        error=error if error and error not in _LEFT else None,
    )


def encode_write(write: Written, offset_ns: int) -> bytes:
    return otlp.span(
        write.trace_id,
        span_id(),
        write.parent_id,
        WRITE.span,
        WRITE.kind,
        write.start_ns + offset_ns,
        write.end_ns + offset_ns,
        _stage_attributes(WRITE, ""),
        error=None if write.stored else "not stored",
    )


@lru_cache(maxsize=1024)
def _own_attributes(pool: str, replica: str) -> bytes:
    values: dict[str, otlp.Value] = {INTERNAL: True, "weir.pool": pool, "weir.replica": replica}
    return b"".join(otlp.attribute(key, value) for key, value in values.items())


def encode_own_call(call: OwnCall, offset_ns: int) -> bytes:
    return otlp.span(
        call.trace_id,
        call.id,
        b"",
        "warm_up",
        otlp.CLIENT,
        call.start_ns + offset_ns,
        call.end_ns + offset_ns,
        _own_attributes(call.pool, call.replica),
    )
