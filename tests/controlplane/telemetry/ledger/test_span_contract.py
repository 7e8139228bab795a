"""Both sides of the span contract (docs/architecture.md): what the gateway encodes, as the receiver decodes it, in the ledger."""

import pytest

from controlplane.telemetry.ledger import LedgerRow, close
from inference.core import otlp
from inference.observability.span_encoding import encode_trace, encode_write
from inference.observability.spans import ADMIT, INFER, LOOKUP, RESPOND, TOKENIZE, Mark, Trace, Written
from tests.support.telemetry.ledger_traces import assert_closes, spent
from tests.support.telemetry.otlp_payloads import spans_in

WALL = 1_800_000_000_000_000_000


def served() -> Trace:
    trace = Trace(0, None, "chat")
    infer = Mark(INFER, 190, replica="chat-0", pool="chat/eu")
    infer.first_token_ns = 400
    trace.marks += [Mark(LOOKUP, 30), Mark(TOKENIZE, 50), Mark(ADMIT, 90), infer, Mark(RESPOND, 970)]
    trace.end_ns, trace.ttft_ns = 1000, 410
    trace.model, trace.variant, trace.pool, trace.replica = "chat", "chat-small", "chat/eu", "chat-0"
    trace.region, trace.tier, trace.tenant, trace.outcome = "eu", "premium", "acme", "miss"
    trace.stream, trace.input_tokens, trace.output_tokens, trace.cost_usd, trace.policy_version = (
        True,
        600,
        40,
        0.0021,
        7,
    )
    trace.http_status = 200
    trace.policy_rule, trace.degraded = "chat-edge/long", "short answers"
    trace.caller_region, trace.repeated, trace.idempotency_key = "us", True, 999_999_999
    return trace


def row_of(*encoded: bytes) -> LedgerRow:
    body = otlp.request(list(encoded), "weir.gateway", (("service.name", "weir-gateway"),))
    (row,) = close(spans_in(body))
    assert_closes([row])
    return row


def test_a_request_comes_out_as_it_was_timed() -> None:
    trace = served()
    row = row_of(
        encode_trace(trace, WALL), encode_write(Written(trace.context.trace_id, trace.id, 1010, 1040, True), WALL)
    )
    assert spent(row) == {"gateway": 30, "cache": 20, "tokenizer": 40, "queue": 100, "model": 780, "egress": 30}
    assert (row.start_ns, row.end_ns, row.request_id) == (WALL, WALL + 1000, trace.id.hex())
    assert (row.ttft_ns, row.ttft_definition, row.prefill_ns, row.decode_ns) == (410, "gateway", 210, 570)
    assert (row.model, row.variant, row.pool, row.replica) == ("chat", "chat-small", "chat/eu", "chat-0")
    assert (row.region, row.tier, row.tenant, row.cache_outcome) == ("eu", "premium", "acme", "miss")
    assert (row.stream, row.prompt_tokens, row.output_tokens, row.cost_usd) == (True, 600, 40, 0.0021)
    assert (row.policy_version, row.operation, row.status, row.http_status) == (7, "chat", "ok", 200)
    assert (row.policy_rule, row.degraded) == ("chat-edge/long", "short answers")
    assert (row.caller_region, row.repeated, row.idempotency_key) == ("us", True, 999_999_999)
    assert (row.adapter, row.service, row.cold_start) == ("weir", "weir-gateway", False)


@pytest.mark.parametrize("status", ["error", "cancelled", "rejected"])
def test_how_it_ended_is_told(status: str) -> None:
    trace = served()
    trace.status, trace.error_type, trace.error_stage, trace.http_status = status, "budget_exceeded", "queue", 504
    row = row_of(encode_trace(trace, WALL))
    assert (row.status, row.error_type, row.error_stage, row.http_status) == (status, "budget_exceeded", "queue", 504)
