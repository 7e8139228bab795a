"""The rows of requests that Weir's gateway served."""

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER
from controlplane.telemetry.ledger import close
from tests.support.telemetry.ledger_traces import assert_closes, gateway, gateway_trace, span, spent


def test_the_path_and_the_count_of_its_spans_are_columns() -> None:
    spans = gateway_trace()
    (row,) = close(spans)
    assert row.critical_path == tuple(s.span_id.hex() for s in (*spans[1:5], spans[0], *spans[5:7]))
    assert (row.span_count, row.prompt_bucket, row.idempotency_key, row.error_stage) == (8, "512-1023", 0, "")


def test_a_cache_hit_spends_nothing_in_the_model() -> None:
    root = gateway("chat chat", 0, 60, kind=SERVER, weir__request=True, weir__cache__outcome="hit", weir__ttft_ns=55)
    (row,) = close(
        [
            root,
            gateway("gateway.receive", 0, 30, root, stage="gateway"),
            gateway("cache.lookup", 30, 50, root, kind=CLIENT, stage="cache"),
            gateway("gateway.respond", 50, 60, root, stage="egress"),
        ]
    )
    assert spent(row) == {"gateway": 30, "cache": 20, "egress": 10}
    assert (row.cache_outcome, row.ttft_ns, row.prefill_ns, row.decode_ns) == ("hit", 55, 0, 0)


def test_without_its_first_token_all_of_the_model_is_prefill() -> None:
    root = gateway(
        "chat chat", 0, 100, kind=SERVER, weir__request=True, weir__status="error", weir__error_stage="model"
    )
    (row,) = close([root, gateway("model.infer", 10, 100, root, kind=CLIENT, stage="model")])
    assert (row.status, row.error_stage) == ("error", "model")
    assert (row.ttft_ns, row.ttft_definition) == (None, "")
    assert (row.prefill_ns, row.decode_ns) == (90, 0)


@pytest.mark.parametrize(
    ("status", "tokens", "stream", "prefill_ns"),
    [
        ("ok", 40, False, 0),
        ("ok", None, False, 0),
        ("ok", 40, True, 80),
        ("ok", 0, False, 80),
        ("error", 40, False, 80),
    ],
)
def test_of_an_answer_that_came_whole_nobody_knows_when_its_first_token_was_there(
    status: str, tokens: int | None, stream: bool, prefill_ns: int
) -> None:
    about = {"weir__status": status, "gen_ai__request__stream": stream}
    if tokens is not None:  # a server may not count them
        about["gen_ai__usage__output_tokens"] = tokens
    root = gateway("chat chat", 0, 100, kind=SERVER, weir__request=True, **about)
    (row,) = close([root, gateway("model.infer", 10, 90, root, kind=CLIENT, stage="model")])
    assert row.stages["model"] == 80
    assert (row.ttft_ns, row.prefill_ns, row.decode_ns) == (None, prefill_ns, 0)


def test_ttft_comes_from_the_genai_attribute_where_weirs_is_absent() -> None:
    (row,) = close([gateway("chat x", 0, 10**9, weir__request=True, gen_ai__response__time_to_first_chunk=0.25)])
    assert (row.ttft_ns, row.ttft_definition) == (250_000_000, "gateway")


def test_the_callers_own_span_widens_the_window_and_its_time_is_network() -> None:
    caller = span("POST", 900, 2070, kind=CLIENT, http__request__method="POST")
    (row,) = close([caller, *gateway_trace(parent=caller)])
    assert (row.start_ns, row.end_ns, row.entry_start_ns) == (900, 2070, 1000)
    assert spent(row)["network"] == 170
    assert row.stages["model"] == 770
    assert row.span_count == 9
    assert row.cache_outcome == "miss"
    # the write after the answer is no part of the root, and so not of what the client waited for
    assert row.stages["cache"] == 20


@pytest.mark.parametrize(("end", "begins"), [(1410, 900), (1001, 900), (1000, 1000)])
def test_a_client_that_closed_its_span_at_the_headers_does_not_cut_the_stream(end: int, begins: int) -> None:
    caller = span("POST", 900, end, kind=CLIENT)
    (row,) = close([caller, *gateway_trace(parent=caller)])
    assert (row.start_ns, row.end_ns) == (begins, 2000)
    assert row.stages["network"] == 1000 - begins
    assert row.stages["model"] == 770


def test_a_client_that_gave_up_ends_the_request() -> None:
    caller = span("POST", 900, 1410, kind=CLIENT, status=2)
    (row,) = close([caller, *gateway_trace(parent=caller)])
    assert (row.start_ns, row.end_ns) == (900, 1410)
    assert row.stages["model"] == 210
    assert_closes([row])
