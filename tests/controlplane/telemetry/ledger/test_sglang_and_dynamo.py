"""Traces of SGLang's and Dynamo's shapes, as their sources write them."""

import itertools

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER, Span
from controlplane.telemetry.ledger import close
from tests.support.telemetry.ledger_traces import assert_closes, span, spent

SGLANG = "sglang server"


def sglang(parent: Span | bytes = b"", **latency: float) -> list[Span]:
    """A request of 1,000 ns: its root, the spans of two threads, and their stages."""
    also = {f"gen_ai.latency.{name}": value for name, value in latency.items()}
    root = span(" Req 1f2e3d4c", 0, 1000, parent, scope=SGLANG, rid="1f2e3d4c5b", module="sglang::request", also=also)
    threads = [
        span("Tokenizer(host:0a1b2c3d | pid:7)", 0, 110, root, scope=SGLANG, thread_label="Tokenizer"),
        span(
            "Scheduler [TP 0] (host:0a1b2c3d | pid:8)",
            110,
            980,
            root,
            scope=SGLANG,
            thread_label="Scheduler",
            tp_rank=0,
        ),
    ]
    stages = [
        span("tokenize", 0, 60, threads[0], scope=SGLANG),
        span("api_server_dispatch", 60, 110, threads[0], scope=SGLANG),
        span("request_process", 110, 130, threads[1], scope=SGLANG),
        span("prefill_waiting", 130, 330, threads[1], scope=SGLANG),
        span("prefill_forward", 330, 480, threads[1], scope=SGLANG),
        span("decode_forward", 480, 980, threads[1], scope=SGLANG),
    ]
    return [root, *threads, *stages]


def test_sglangs_stages_are_the_requests() -> None:
    (row,) = close(sglang(time_to_first_token=480e-9, time_in_model_prefill=370e-9))
    assert_closes([row])
    assert row.adapter == "sglang"
    assert spent(row) == {"tokenizer": 110, "queue": 220, "model": 670}
    assert (row.ttft_ns, row.ttft_definition) == (480, "sglang-arrival")
    assert not row.unmeasured


@pytest.mark.parametrize(("prefill_s", "tokenizer"), [(370e-9, 110), (480e-9, 0), (500e-9, 0)])
def test_of_a_request_without_its_stages_the_latencies_say_what_is_the_tokenizers(
    prefill_s: float, tokenizer: int
) -> None:
    (row,) = close(sglang(time_to_first_token=480e-9, time_in_model_prefill=prefill_s)[:1])
    assert row.stages["tokenizer"] == tokenizer
    assert row.stages["model"] == 1000 - tokenizer
    assert row.unmeasured


def test_without_latencies_what_no_stage_explains_is_unattributed() -> None:
    (row,) = close(sglang())
    assert spent(row) == {"tokenizer": 110, "queue": 220, "model": 650, "unattributed": 20}


def test_stages_that_come_before_their_root_are_no_requests() -> None:
    _, *rest = sglang()
    for known in range(1, len(rest) + 1):
        for some in itertools.combinations(rest, known):
            assert close(some) == []


def test_dynamos_frontend_is_the_request_and_its_worker_the_model() -> None:
    front = span(
        "http-request", 0, 1000, method="POST", uri="/v1/chat/completions", x_request_id="a", service="dynamo-frontend"
    )
    worker = span("handle_payload", 100, 900, front, component="backend", service="dynamo-worker-decode")
    (row,) = close([front, worker])
    assert_closes([row])
    assert (row.adapter, row.service) == ("dynamo", "dynamo-frontend")
    assert spent(row) == {"gateway": 200, "model": 800}


def test_an_engine_beneath_dynamos_worker_has_its_own_stages() -> None:
    front = span("http-request", 0, 1000, method="POST", uri="/v1/completions?x=1", service="dynamo-frontend")
    worker = span("handle_payload", 100, 900, front, component="backend", service="dynamo-worker-decode")
    engine = span("llm_request", 200, 800, worker, kind=SERVER, service="vllm", gen_ai__latency__time_in_queue=100e-9)
    (row,) = close([front, worker, engine])
    assert spent(row) == {"gateway": 200, "queue": 100, "model": 700}


def test_dynamos_probes_are_no_requests() -> None:
    assert close([span("http-request", 0, 9, method="GET", uri="/health")]) == []
    assert close([span("http-request", 0, 9, method="GET", uri="/v1/models")]) == []
    assert close([span("render", 0, 9, method="POST", uri="/v1/completions")]) == [], "another program's span"


def test_spans_of_others_with_these_names_are_not_theirs() -> None:
    (row,) = close([span("handle_payload", 0, 9, kind=SERVER)])
    assert row.adapter == "generic"
    assert close([span("http-request", 0, 9, kind=CLIENT)]) == []
