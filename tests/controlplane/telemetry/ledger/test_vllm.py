"""vLLM's `llm_request`: its latencies as stages within the span."""

import pytest

from controlplane.telemetry.core.spans import SERVER, AttrValue
from controlplane.telemetry.ledger import LedgerRow, close
from tests.support.telemetry.ledger_traces import assert_closes, span, spent

S = 1_000_000_000


def llm_request(**latency: AttrValue) -> LedgerRow:
    attributes = {f"gen_ai__latency__{name}": value for name, value in latency.items()}
    (row,) = close([span("llm_request", 0, 10 * S, kind=SERVER, service="vllm", also=attributes)])
    assert_closes([row])
    return row


def test_its_latencies_become_stages() -> None:
    row = llm_request(
        time_to_first_token=3.0,
        time_in_queue=1.0,
        time_in_model_prefill=1.5,
        time_in_model_decode=6.0,
        time_in_model_inference=7.5,
        e2e=9.5,
    )
    assert spent(row) == {
        "tokenizer": S // 2,  # 3.0 - 1.0 - 1.5, the hop to the engine with it
        "queue": S,
        "model": 7 * S + S // 2,
        "egress": S,  # what is left of the span
    }
    assert (row.ttft_ns, row.ttft_definition) == (3 * S, "vllm-arrival")
    assert (row.prefill_ns, row.decode_ns) == (S + S // 2, 6 * S)
    assert row.adapter == "vllm"


def test_without_latencies_it_is_all_the_model_and_one_alone_says_its_own() -> None:
    row = llm_request()
    assert spent(row) == {"model": 10 * S}
    assert (row.ttft_ns, row.prefill_ns, row.decode_ns) == (None, 0, 0)
    assert spent(llm_request(time_in_queue=4.0)) == {"queue": 4 * S, "model": 6 * S}
    row = llm_request(time_in_queue=1.0, time_in_model_prefill=2.0)
    assert (row.ttft_ns, row.ttft_definition) == (2 * S, "vllm-scheduled")
    assert (row.prefill_ns, row.decode_ns) == (2 * S, 7 * S)


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        (
            {"time_to_first_token": 1.0, "time_in_queue": 3.0, "time_in_model_prefill": 2.0},
            {"queue": 3 * S, "model": 7 * S},
        ),
        ({"time_in_queue": 99.0, "time_in_model_inference": 99.0}, {"queue": 10 * S}),
        ({"time_in_queue": float("nan"), "time_in_model_inference": float("inf")}, {"model": 10 * S}),
        ({"time_in_queue": "soon", "time_in_model_decode": (1.0,)}, {"model": 10 * S}),
        ({"time_in_queue": -5.0, "time_in_model_inference": 4.0}, {"model": 4 * S, "egress": 6 * S}),
        ({"time_to_first_token": 1e30, "time_in_queue": True}, {"model": 10 * S}),
    ],
)
def test_numbers_that_contradict_one_another_still_close(
    latency: dict[str, AttrValue], expected: dict[str, int]
) -> None:
    assert spent(llm_request(**latency)) == expected
