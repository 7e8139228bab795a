"""Spans with any values give a row that closes."""

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER, AttrValue
from controlplane.telemetry.ledger import close
from tests.support.telemetry.ledger_traces import assert_closes, gateway, gateway_trace, span

NONSENSE: list[AttrValue] = [float("nan"), float("inf"), -1, -0.5, 10**30, 1e300, True, "", "7", (), (1, "x"), "weir"]
READ = [
    "weir.request",
    "weir.stage",
    "weir.ttft_ns",
    "weir.status",
    "weir.cost_usd",
    "weir.policy_version",
    "weir.cold_start",
    "weir.cache.outcome",
    "weir.error_stage",
    "gen_ai.usage.input_tokens",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.latency.time_in_queue",
    "gen_ai.latency.time_to_first_token",
    "http.response.status_code",
    "http.request.method",
    "url.path",
    "db.system",
    "error.type",
    "triton.model_name",
]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
@pytest.mark.parametrize("name", READ)
def test_nonsense_in_any_attribute_does_no_harm(name: str, value: AttrValue) -> None:
    for spans in (
        gateway_trace(root={name: value}),
        [span("llm_request", 0, 1000, kind=SERVER, also={name: value})],
        [span("InferRequest", 0, 1000, kind=SERVER, also={name: value})],
        [span("chat", 0, 1000, kind=CLIENT, gen_ai__operation__name="chat", also={name: value})],
    ):
        rows = close(spans)
        assert len(rows) == 1
        assert_closes(rows)
        (row,) = rows
        assert row.prompt_tokens is None or 0 <= row.prompt_tokens <= 10**9
        assert row.cost_usd is None or 0 <= row.cost_usd <= 10**9
        assert row.ttft_ns is None or 0 <= row.ttft_ns <= 10**18
        assert row.status in {"ok", "error", "cancelled", "rejected"}


@pytest.mark.parametrize(
    ("value", "tokens", "cost"),
    [
        (0, 0, 0.0),
        (7, 7, 7.0),
        (7.0, 7, 7.0),
        (7.5, None, 7.5),
        (10**9, 10**9, 1e9),
        (10**9 + 1, None, None),
        (-1, None, None),
        (True, None, None),
        ("7", None, None),
    ],
)
def test_a_number_is_one_within_bounds(value: AttrValue, tokens: int | None, cost: float | None) -> None:
    (row,) = close(gateway_trace(root={"gen_ai.usage.output_tokens": value, "weir.cost_usd": value}))
    assert (row.output_tokens, row.cost_usd) == (tokens, cost)


def test_a_request_of_no_length_closes() -> None:
    (row,) = close([gateway("chat x", 5, 5, weir__request=True), gateway("y", 5, 5, weir__stage="cache")])
    assert (row.e2e_ns, row.unattributed_ns, row.critical_path) == (0, 0, ())


def test_a_thousand_orphans_around_a_thousand_requests_are_quickly_given_up() -> None:
    absent = b"\x07" * 8
    lost = [span("lost", i, i + 1, absent, kind=SERVER) for i in range(1500)]
    rows = close([*gateway_trace(0), *lost])
    assert [row.span_count for row in rows] == [8]
    assert len(close(lost)) == 1
