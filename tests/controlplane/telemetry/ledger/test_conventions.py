"""Spans of other emitters: GenAI in three generations, HTTP, Redis, and all others by the generic rule."""

from typing import Any

import pytest

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, AttrValue
from controlplane.telemetry.ledger import LedgerRow, close
from tests.support.telemetry.ledger_traces import span, spent

GENERATIONS = {
    "up to 1.36": {
        "gen_ai__system": "openai",
        "gen_ai__usage__prompt_tokens": 700,
        "gen_ai__usage__completion_tokens": 9,
    },
    "second": {
        "gen_ai__provider__name": "openai",
        "gen_ai__usage__input_tokens": 700,
        "gen_ai__usage__output_tokens": 9,
    },
    "current": {
        "gen_ai__provider__name": "openai",
        "gen_ai__usage__input_tokens": 700,
        "gen_ai__usage__output_tokens": 9,
        "gen_ai__usage__cache_read__input_tokens": 512,
    },
}


def only(**attributes: AttrValue) -> LedgerRow:
    kind = SERVER
    (row,) = close([span("request", 0, 1000, kind=kind, also=attributes)])
    return row


@pytest.mark.parametrize("usage", GENERATIONS.values(), ids=GENERATIONS.keys())
@pytest.mark.parametrize(
    ("kind", "definition"), [(SERVER, "otel-server"), (CLIENT, "client"), (INTERNAL, "client"), (0, "client")]
)
def test_every_generation_of_genai_says_model_operation_tokens_and_ttft(
    usage: dict[str, AttrValue], kind: int, definition: str
) -> None:
    attributes: dict[str, AttrValue] = {
        **usage,
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "asked",
        "gen_ai__response__model": "answered-0613",
        "gen_ai__request__stream": True,
        "gen_ai__response__time_to_first_chunk": 250e-9,
    }
    (row,) = close([span("chat asked", 0, 1000, kind=kind, also=attributes)])
    assert (row.model, row.operation, row.stream) == ("asked", "chat", True)
    assert (row.prompt_tokens, row.output_tokens, row.prompt_bucket) == (700, 9, "512-1023")
    assert row.cached_tokens == usage.get("gen_ai__usage__cache_read__input_tokens")
    assert (row.ttft_ns, row.ttft_definition) == (250, definition)
    assert row.adapter == "genai"


def test_calls_of_an_sdk_that_makes_them_internal_are_requests_unless_clients_calls_lie_beneath() -> None:
    said: dict[str, AttrValue] = {"gen_ai.request.model": "asked", "gen_ai.usage.input_tokens": 7}
    page = span("POST /api/chat", 0, 1000, kind=SERVER, http__method="POST", http__target="/api/chat")
    around = span("ai.streamText", 10, 990, page, kind=INTERNAL)
    steps = [span("ai.streamText.doStream", at, at + 90, around, kind=INTERNAL, also=said) for at in (100, 300)]
    rows = close([page, around, *steps])
    assert [(row.model, row.prompt_tokens, spent(row)) for row in rows] == [("asked", 7, {"model": 90})] * 2
    calls = [
        span("chat", at, at + 20, steps[0], kind=CLIENT, gen_ai__operation__name="chat", also=said) for at in (110, 150)
    ]
    assert [row.e2e_ns for row in close([page, around, steps[0], *calls])] == [20, 20]


def test_an_sdks_internal_call_around_one_http_call_has_its_window_and_its_counts() -> None:
    said: dict[str, AttrValue] = {"gen_ai.request.model": "asked", "gen_ai.usage.output_tokens": 9}
    step = span("ai.streamText.doStream", 100, 900, kind=INTERNAL, also=said)
    path = "https://api.example.com/v1/chat/completions"
    calls = [
        span("POST", at, at + 200, step, kind=CLIENT, http__request__method="POST", url__full=path) for at in (110, 400)
    ]
    (row,) = close([step, calls[0]])
    assert (row.model, row.output_tokens, row.e2e_ns, row.operation) == ("asked", 9, 800, "chat")
    assert spent(row) == {"model": 800}
    assert [row.e2e_ns for row in close([step, *calls])] == [200, 200]


def test_what_only_the_client_says_is_the_requests_and_the_server_comes_first() -> None:
    said = {"gen_ai__request__model": "asked", "gen_ai__usage__input_tokens": 7, "gen_ai__usage__output_tokens": 0}
    caller = span("chat m", 0, 1000, kind=CLIENT, gen_ai__operation__name="chat", also=said)
    served: dict[str, AttrValue] = {"http__request__method": "POST", "gen_ai__usage__output_tokens": 9}
    server = span("POST", 100, 900, caller, kind=SERVER, url__path="/v1/chat/completions", also=served)
    (row,) = close([caller, server])
    assert (row.model, row.prompt_tokens, row.output_tokens) == ("asked", 7, 9)


def test_the_ttft_is_that_of_the_outermost_span_that_has_one_and_else_the_clients() -> None:
    spans = [caller := span("chat m", 0, 1000, kind=CLIENT, gen_ai__operation__name="chat")]
    spans += [front := span("POST", 100, 990, caller, kind=SERVER, http__method="POST", http__route="/v1/completions")]
    spans += [span("llm_request", at, 900, front, kind=SERVER) for at in (500, 100)]
    said: list[dict[str, AttrValue]] = [{}] * 4
    for at, name, ttft_ns, definition in (
        (0, "gen_ai.response.time_to_first_chunk", 400, "client"),
        (2, "gen_ai.latency.time_to_first_token", 250, "vllm-arrival"),
        (3, "gen_ai.latency.time_to_first_token", 300, "vllm-arrival"),
        (1, "gen_ai.response.time_to_first_chunk", 350, "otel-server"),
    ):
        said[at] = {name: ttft_ns / 1e9}
        known = [one._replace(attributes=one.attributes | also) for one, also in zip(spans, said, strict=True)]
        (row,) = close(known)
        assert (row.ttft_ns, row.ttft_definition) == (ttft_ns, definition)


def test_a_failed_request_names_the_stage_of_the_last_span_that_failed() -> None:
    root = span("POST", 0, 100, kind=SERVER, status=2, error__type="timeout")
    (row,) = close(
        [
            root,
            span("GET", 10, 20, root, kind=CLIENT, db__system="redis", status=2),
            span("call", 20, 90, root, kind=CLIENT),
        ]
    )
    assert (row.status, row.error_type, row.error_stage) == ("error", "timeout", "cache")


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ({"status": 2, "error__type": "timeout"}, ("error", "timeout", "")),
        ({"status": 2}, ("error", "", "")),
        ({"status": 2, "http__response__status_code": 503}, ("error", "", "model")),
        ({"error__type": "cancelled"}, ("cancelled", "cancelled", "")),
    ],
)
def test_a_call_that_no_server_is_known_to_have_taken_failed_in_no_known_stage(
    said: dict[str, Any], outcome: tuple[str, str, str]
) -> None:
    (row,) = close([span("chat m", 0, 1000, kind=CLIENT, gen_ai__operation__name="chat", **said)])
    assert (row.status, row.error_type, row.error_stage) == outcome
    assert row.unmeasured


@pytest.mark.parametrize("key", ["db__system__name", "db__system"])
@pytest.mark.parametrize("kind", [CLIENT, INTERNAL])
def test_redis_is_the_cache(key: str, kind: int) -> None:
    root = span("handle", 0, 100, kind=SERVER)
    (row,) = close([root, span("GET", 20, 50, root, kind=kind, also={key: "redis"})])
    assert spent(row) == {"cache": 30, "unattributed": 70}


def test_other_databases_are_reached_through_the_network() -> None:
    root = span("handle", 0, 100, kind=SERVER)
    (row,) = close([root, span("SELECT", 20, 50, root, kind=CLIENT, db__system="postgresql")])
    assert spent(row) == {"network": 30, "unattributed": 70}


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/completions?stream=1", "text_completion"),
        ("https://eu.example.com/openai/deployments/x/chat/completions", "chat"),
        ("/v1/embeddings/", "embeddings"),
        ("/v2/models/bert/versions/3/infer", "infer"),
        ("/v2/models/llm/generate_stream", "generate"),
        ("/reports/generate", ""),
        ("/", ""),
    ],
)
def test_the_path_says_which_inference_it_is(path: str, operation: str) -> None:
    assert only(http__method="POST", http__target=path).operation == operation


KNOWN: dict[int | str | None, int | None] = {1000: None, "404": 404, "429": 429, "0": None, "x": None}
"""What is known of a status that is no number of HTTP's, or one in text, as Envoy has it."""


@pytest.mark.parametrize(
    ("http_status", "statuses", "status"),
    [
        (200, (0, 0), "ok"),
        (399, (0, 0), "ok"),
        (400, (0, 0), "error"),
        (429, (0, 0), "rejected"),
        (499, (0, 0), "cancelled"),
        (999, (0, 0), "error"),
        (1000, (0, 0), "ok"),
        ("404", (0, 0), "error"),
        ("429", (0, 0), "rejected"),
        ("0", (0, 0), "ok"),
        ("x", (0, 0), "ok"),
        (None, (0, 0), "ok"),
        (None, (2, 0), "error"),
        (None, (0, 2), "error"),
    ],
)
def test_the_status_is_that_of_http_or_of_either_span(
    http_status: int | str | None, statuses: tuple[int, int], status: str
) -> None:
    said: dict[str, AttrValue] = {"http.request.method": "POST", "url.path": "/v1/chat/completions"}
    if http_status is not None:
        said["http.status_code"] = http_status
    caller = span("chat m", 0, 1000, kind=CLIENT, status=statuses[0], gen_ai__operation__name="chat")
    server = span("POST", 100, 900, caller, kind=SERVER, service="server", status=statuses[1], also=said)
    (row,) = close([caller, server])
    assert (row.status, row.http_status) == (status, KNOWN.get(http_status, http_status))


@pytest.mark.parametrize(("flags", "status"), [("-", "ok"), ("DC", "cancelled"), ("UT,DR", "cancelled"), ("UF", "ok")])
def test_a_client_that_left_envoy_has_cancelled(flags: str, status: str) -> None:
    said = {"http.method": "POST", "http.url": "http://api/v1/chat/completions", "http.status_code": "200"}
    assert only(**said, response_flags=flags).status == status


@pytest.mark.parametrize(
    ("said", "status", "http_status"),
    [
        ({"rpc.grpc.status_code": 1}, "cancelled", 499),
        ({"rpc.response.status_code": "CANCELLED"}, "cancelled", 499),
        ({"grpc.status_code": "1"}, "cancelled", 499),
        ({"rpc.grpc.status_code": 3}, "error", 400),
        ({"rpc.grpc.status_code": 8}, "rejected", 429),
        ({"rpc.grpc.status_code": 14}, "error", None),
        ({"rpc.grpc.status_code": 3, "http.status_code": 200}, "error", 400),
        ({"rpc.grpc.status_code": 0, "http.status_code": 200.0}, "error", 200),
    ],
)
def test_a_call_over_grpc_ends_as_its_status_says(
    said: dict[str, AttrValue], status: str, http_status: int | None
) -> None:
    caller = span("ModelInfer", 0, 1000, kind=CLIENT, status=2, also=said)
    (row,) = close([caller, span("InferRequest", 100, 900, caller, kind=SERVER, service="triton")])
    assert (row.status, row.http_status) == (status, http_status)
