"""What clients get for each error: status, type, code and stage; when to come again; and what else the body says."""

import json
from typing import Any

import pytest

from inference.contract.metering.rate_limit import Limit
from inference.core.openai import errors
from inference.core.openai.errors import ApiError

REQUESTS = Limit("requests", "tenant", b"", 9)
BUDGET = Limit("usd_day", "key", b"", 2_500_000)
NEVER, FINAL = (), ((b"x-should-retry", b"false"),)
INVALID = "invalid_request_error"


def later(seconds: int, ms: int, *, by_itself: bool = True) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"retry-after", b"%d" % seconds), (b"retry-after-ms", b"%d" % ms), (b"x-should-retry", b"true" if by_itself else b"false"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "stage", "headers", "more"),
    [
        (errors.invalid("m", "p"), 400, INVALID, "invalid_value", "gateway", NEVER, {"param": "p"}),
        (errors.unsupported("p", "m"), 400, INVALID, "unsupported_parameter", "gateway", NEVER, {"param": "p"}),
        (errors.not_offered("p", "s"), 400, INVALID, "unsupported_parameter", "gateway", NEVER, {"param": "p"}),
        (errors.unknown_parameter("\ud800" + "p" * 100), 400, INVALID, "unknown_parameter", "gateway", NEVER,
         {"param": "?" + "p" * 99, "message": f"Unknown parameter: '?{'p' * 99}'."}),
        (errors.not_served("x", "chat", "s"), 400, INVALID, "unsupported_operation", "gateway", NEVER, {"param": "model"}),
        (errors.refused_by_server("m", 404, "", "gone"), 404, "not_found_error", "gone", "model", NEVER, {"param": None}),
        (errors.refused_by_server("m", 422, "p", ""), 422, INVALID, "invalid_value", "model", NEVER, {"param": "p"}),
        (errors.context_length(9, 8, "p"), 400, INVALID, "context_length_exceeded", "tokenizer", NEVER, {"param": "p"}),
        (errors.context_exceeded(9, 1, 8, "p"), 400, INVALID, "context_length_exceeded", "tokenizer", NEVER, {}),
        (errors.output_limit("p", 9, 8), 400, INVALID, "invalid_value", "gateway", NEVER, {"param": "p"}),
        (errors.missing_key(), 401, INVALID, "invalid_api_key", "gateway", NEVER, {}),
        (errors.wrong_key(), 401, INVALID, "invalid_api_key", "gateway", NEVER, {}),
        (errors.expired_key(), 401, INVALID, "invalid_api_key", "gateway", NEVER, {}),
        (errors.wrong_token("w"), 401, INVALID, "invalid_api_key", "gateway", NEVER, {"message": "The token is refused. w."}),
        (errors.no_metrics(), 401, INVALID, "invalid_api_key", "gateway", NEVER, {}),
        (errors.no_such_model("x"), 404, INVALID, "model_not_found", "gateway", NEVER, {"param": "model"}),
        (errors.refused_model("x"), 503, "server_error", "model_misconfigured", "gateway", FINAL, {"param": "model"}),
        (errors.no_such_answer(), 404, INVALID, "answer_not_known", "gateway", NEVER, {"param": "request_id"}),
        (errors.not_cached(), 504, INVALID, "not_cached", "cache", FINAL, {}),
        (errors.no_such_url("GET", "/x"), 404, INVALID, "unknown_url", "gateway", NEVER, {}),
        (errors.headers_too_large(1, 2), 431, INVALID, "headers_too_large", "gateway", NEVER, {}),
        (errors.wrong_version("1.0"), 505, INVALID, "http_version_not_supported", "gateway", FINAL, {}),
        (errors.unknown_coding(), 501, INVALID, "transfer_coding_not_supported", "gateway", FINAL, {}),
        (errors.method_not_allowed("GET", "/x", "POST"), 405, INVALID, "method_not_allowed", "gateway", ((b"allow", b"POST"),), {}),
        (errors.body_too_large(1), 413, INVALID, "request_too_large", "gateway", NEVER, {}),
        (errors.slow_body(1), 408, INVALID, "request_timeout", "gateway", NEVER, {}),
        (errors.rate_limited("t", REQUESTS, 1.5), 429, "requests", "rate_limit_exceeded", "gateway", later(2, 1500),
         {"reason": "requests_per_minute", "scope": "tenant", "limit": 9}),
        (errors.rate_limited("t", Limit("in_flight", "key", b"", 1), 0.0), 429, "requests", "rate_limit_exceeded", "gateway", later(1, 1),
         {"reason": "max_in_flight", "scope": "key"}),
        (errors.rate_limited("t", BUDGET, 5400), 429, "insufficient_quota", "insufficient_quota", "gateway",
         later(5400, 5_400_000, by_itself=False), {"limit_usd": 2.5, "scope": "key", "message": "The budget of this API key is used up: "
         "2.50 USD a day. The next day begins in 1.5 h (UTC); the key's owner can raise it."}),
        (errors.not_priced("x"), 403, INVALID, "price_unknown", "gateway", NEVER, {"param": "model", "reason": "price_unknown"}),
        (errors.overloaded("x", 2.4), 429, "server_error", "queue_full", "queue", later(3, 2400), {"reason": "queue_full"}),
        (errors.refused_by_policy("x", "s", "p", False, 3.0), 503, "server_error", "degraded", "gateway", later(3, 3000),
         {"reason": "policy", "degraded": "s", "policy": "p", "retry_after_s": 3.0,
          "message": "Of this tier, 'x' takes no requests at present. Send it again in 3 s."}),
        (errors.refused_by_policy("x", "s", "p", True, 3.0), 503, "server_error", "degraded", "gateway", later(3, 3000),
         {"message": "Of this tier, 'x' answers only what is in its cache at present, and this request is not. Send it again in 3 s."}),
        (errors.outside_regions("x", "t", ["eu", "at"]), 403, INVALID, "region_not_allowed", "gateway", NEVER, {"reason": "region",
         "message": "Tenant 't' may be served by 'x' in at, eu alone, and no pool of the model is there."}),
        (errors.none_in_regions("x", "t", ["eu", "at"], 2.0), 503, "server_error", "service_unavailable", "model", later(2, 2000),
         {"reason": "region"}),
        (errors.unavailable("m", 1.0, "queue"), 503, "server_error", "service_unavailable", "queue", later(1, 1000), {}),
        (errors.stage_timeout("model", 7), 504, "server_error", "stage_timeout", "model", FINAL, {"param": "model"}),
        (errors.stage_timeout("queue", 7), 504, "server_error", "stage_timeout", "queue", later(1, 1000, by_itself=False),
         {"reason": "queue_timeout", "param": "queue"}),
        (errors.deadline_missed("model", 2.0), 504, "server_error", "deadline_exceeded", "model", later(1, 1000, by_itself=False),
         {"reason": "deadline", "message": "No answer within the client's own deadline of 2 s; the time went in the model stage."}),
        (errors.deadline_missed("queue", 2.0, "r"), 504, "server_error", "deadline_exceeded", "queue", later(1, 1000, by_itself=False),
         {"message": "No answer within the deadline of rule 'r', 2 s; the time went in the queue stage."}),
        (errors.model_failed("d"), 502, "server_error", "model_error", "model", FINAL, {}),
        (errors.lost_with_prompt("x", ["a"]), 502, "server_error", "servers_lost", "model", FINAL, {}),
        (errors.internal("i"), 500, "server_error", "internal_error", "gateway", FINAL, {}),
        (errors.invalid("m" * 501, "p" * 501), 400, INVALID, "invalid_value", "gateway", NEVER, {"message": "m" * 500, "param": "p" * 500}),
    ],
)  # fmt: skip
def test_an_error_says_what_the_client_can_do(
    error: ApiError, status: int, kind: str, code: str, stage: str, headers: tuple[Any, ...], more: dict[str, Any]
) -> None:
    assert (error.status, error.stage, tuple(error.headers())) == (status, stage, headers)
    said = json.loads(error.body())["error"]
    assert (said["type"], said["code"]) == (kind, code)
    assert said | more == said
    assert error.is_clients == (status < 500 or kind == INVALID)
    assert ("reason" in said) == bool(error.reason)


def test_what_only_spans_and_counters_read() -> None:
    assert errors.stage_timeout("queue", 7).timeout_ms == errors.stage_timeout("model", 7).timeout_ms == 7
    assert errors.deadline_missed("queue", 7).timeout_ms == 0
    assert (errors.context_length(9, 8, "p").prompt_tokens, errors.internal("i").prompt_tokens) == (9, -1)
    assert errors.unavailable("m", 1.0, detail="d").detail == errors.model_failed("d").detail == "d"
    assert errors.lost_with_prompt("x", []).detail.endswith("those of requests before")
