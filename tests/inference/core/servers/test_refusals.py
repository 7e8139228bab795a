"""The bodies are those that the servers' sources write (inference/core/servers/refusals.py names them)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.core.backend_errors import MAX_MESSAGE_CHARS
from inference.core.servers import refusals
from inference.core.servers.refusals import read, read_event

VLLM = {"error": {"message": "top_p must be in (0, 1]", "type": "BadRequestError", "param": "top_p", "code": 400}}
SGLANG = {"object": "error", "message": "temperature is bad", "type": "BadRequest", "param": "temperature", "code": 400}
LLAMACPP = {"error": {"code": 400, "message": "Unsupported param: echo", "type": "invalid_request_error"}}
DYNAMO = {"message": "Unsupported parameter(s): foo", "type": "Bad Request", "code": 400}
TGI = {"error": "`temperature` must be strictly positive", "error_type": "validation"}
FASTAPI = {"detail": [{"loc": ["body", "n"], "msg": "Input should be a valid integer", "type": "int_parsing"}]}


@pytest.mark.parametrize(
    ("body", "status", "message", "param"),
    [
        (VLLM, 400, "top_p must be in (0, 1]", "top_p"),
        (SGLANG, 400, "temperature is bad", "temperature"),
        (LLAMACPP, 400, "Unsupported param: echo", None),
        (DYNAMO, 400, "Unsupported parameter(s): foo", None),
        (TGI, 422, "`temperature` must be strictly positive", None),
        (FASTAPI, 422, "n: Input should be a valid integer", "n"),
        ({"error": "bad JSON"}, 400, "bad JSON", None),
        ({"detail": "no"}, 422, "no", None),
    ],
)
def test_every_shape_of_an_error_is_read(body: Any, status: int, message: str, param: str | None) -> None:
    refusal = read(status, json.dumps(body).encode())
    assert (refusal.kind, refusal.message, refusal.param) == ("invalid", message, param)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "busy"), (503, "busy"), (529, "busy"), (500, "failed"), (502, "failed"), (504, "failed"), (401, "failed"),
     (404, "missing"), (405, "missing"), (501, "failed"), (424, "failed"), (302, "failed"),
     (402, "failed"), (408, "failed"), (409, "failed"), (499, "failed"),
     (400, "invalid"), (413, "invalid"), (415, "invalid"), (422, "invalid"), (451, "invalid")],
)  # fmt: skip
def test_busy_is_not_broken_and_a_wrong_key_is_not_the_clients_fault(status: int, kind: str) -> None:
    refusal = read(status, b'{"error":"x"}')
    assert refusal.kind == kind
    assert bool(refusal.message) == (kind == "invalid")  # only what is wrong with the request is for the client


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (501, "The model does not support Embeddings API"),
        (400, "The model does not support Chat Completions API"),
        (501, "The model does not support Completions API"),
        (501, "This server does not support embeddings. Start it with `--embeddings`"),
        (501, "This server does not support completions. Start it without `--embeddings`"),
        (400, "This model does not appear to be an embedding model by default. Please add `--is-embedding`"),
        (400, '"all-minilm" does not support chat'),
        (404, "This is not a chat model and thus not supported in the v1/chat/completions endpoint."),
        (403, "You are not allowed to generate embeddings from this model"),
    ],
)
def test_a_model_that_is_not_for_this_is_no_failure(status: int, said: str) -> None:
    refusal = read(status, json.dumps({"error": {"message": said, "param": "model"}}).encode())
    assert (refusal.kind, refusal.message) == ("unserved", "")
    assert said in refusal.said
    assert read(500, json.dumps({"error": said}).encode()).kind == "failed"


def test_a_missing_route_or_model_is_not_taken_from_the_page_of_a_proxy() -> None:
    assert read(404, b'{"detail":"Not Found"}').kind == "missing"
    assert read(404, b"default backend - 404").kind == "failed"
    assert read(404, b"").kind == "failed"
    assert read(400, b'{"message":"The model does not support chat templates with images"}').kind == "invalid"


def test_a_server_that_blames_clients_for_everything_is_read_more_closely() -> None:
    own = json.dumps({"message": "CppExecutorError: [TensorRT-LLM][ERROR] out of memory", "code": 400}).encode()
    assert read(400, own).kind == "invalid"
    assert read(400, own, blames_client_for_all=True).kind == "failed"
    assert read(400, b'{"message":"n is too large"}', blames_client_for_all=True).kind == "invalid"


def test_a_prompt_that_is_too_long_has_openais_code() -> None:
    vllm = "This model's maximum context length is 2048 tokens. However, your prompt has 3000."
    assert read(400, json.dumps({"error": {"message": vllm, "code": 400}}).encode()).code == "context_length_exceeded"
    llama = {"error": {"code": 400, "message": "the request exceeds the available context size", "n_ctx": 512}}
    assert read(400, json.dumps(llama).encode()).code == "context_length_exceeded"


def test_an_error_in_a_stream_says_by_its_code_what_it_is() -> None:
    assert read_event(json.dumps(VLLM).encode()).kind == "invalid"
    assert read_event(b'{"error":{"message":"full","code":503}}').kind == "busy"
    assert read_event(b'{"error":{"message":"EngineDeadError","code":500}}').kind == "failed"
    assert read_event(b"the worker left").kind == "failed"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "busy"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, "invalid"),
        ({"type": "error", "error": {"type": "api_error", "message": "no"}}, "failed"),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "no"}, "busy"),
        ({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "no"}}}, "busy"),
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "no"}}}, "failed"),
        ({"type": "response.failed", "response": {"error": None}}, "failed"),
        ({"error": "no", "error_type": "overloaded"}, "busy"),
        ({"error": {"type": "invalid_request_error", "code": 500, "message": "no"}}, "failed"),
    ],
)
def test_an_error_in_a_stream_says_by_its_type_what_it_is(said: Any, kind: str) -> None:
    assert read_event(json.dumps(said).encode()).kind == kind


@pytest.mark.parametrize(
    "trace",
    [
        'Traceback (most recent call last):\n  File "/opt/x/model.py", line 3, in run\n    boom\nKeyError: 1',
        'failed in File "/srv/app.py", line 12, in handle',
        "assertion at /src/kernels/attn.cpp:120",
    ],
)
def test_nothing_of_a_traceback_is_for_the_client(trace: str) -> None:
    refusal = read(400, json.dumps({"error": {"message": f"bad value {trace}"}}).encode())
    assert refusal.message.startswith("bad value")
    assert "File" not in refusal.message
    assert "/" not in refusal.message
    assert read(400, json.dumps({"error": {"message": trace}}).encode()).message


@given(status=st.sampled_from([400, 422, 500, 503]), body=st.binary(max_size=300) | st.builds(
    lambda value: json.dumps(value).encode(),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["error", "message", "detail", "code", "param", "type"]), inner), max_leaves=8),
))  # fmt: skip
def test_no_body_is_too_strange(status: int, body: bytes) -> None:
    refusal = read(status, body)
    assert len(refusal.message) <= MAX_MESSAGE_CHARS
    assert refusals.read_event(body).code
