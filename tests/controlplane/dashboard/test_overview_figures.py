"""A component's figures on the overview are written with their units."""

import pytest

from controlplane.dashboard.views.overview import cost_number, figure
from controlplane.telemetry.core.query_types import ModelCost
from controlplane.telemetry.query.core.question import parse
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import S, row

THIN = "\u202f"


@pytest.mark.parametrize(
    ("key", "value", "name", "text"),
    [
        ("behind_s", 0.0, "behind", "0 ms"),
        ("lag_s", 0.77, "lag", "770 ms"),
        ("uptime_s", 7200.0, "uptime", "2 h"),
        ("commands_per_s", 61.0, "commands", "61.0 /s"),
        ("answer_ms", 1.9, "answer", "1.90 ms"),
        ("used_memory_bytes", 4.1e6, "used memory", "4.10 MB"),
        ("objectives", 4.0, "objectives", "4"),
    ],
)
def test_a_figure_is_written_with_its_unit(key: str, value: float, name: str, text: str) -> None:
    assert figure(key, value) == (name, text.replace(" ", THIN))


def test_a_thousand_tokens_of_answer_have_a_cost_by_model_and_no_price_is_not_free(store: Store) -> None:
    question = parse({}, 1_795_000_900 * S)
    begins = question.range.window.from_ns
    rows = [
        row(1, entry_start_ns=begins + 1, model="large", output_tokens=500, cost_usd=0.002),
        row(2, entry_start_ns=begins + 2, model="large", output_tokens=1500, cost_usd=0.006),
        row(3, entry_start_ns=begins + 3, model="small", output_tokens=1000, cost_usd=0.0001),
        row(4, entry_start_ns=begins + 4, model="other", output_tokens=1000, cost_usd=None),
        row(5, entry_start_ns=begins + 5, model="large", output_tokens=100, cost_usd=0.0, cache_outcome="hit"),
    ]
    store.writer.insert_requests(rows, 1)
    costs = store.overview.costs(question.range.window)
    assert costs == [
        ModelCost("large", 0.008, 2000, 0, prompt_tokens=200),
        ModelCost("small", 0.0001, 1000, 0, prompt_tokens=100),
        ModelCost("other", 0.0, 0, 1),
    ]
    shown = cost_number(question, costs)
    assert shown["value"] == f"0.0027{THIN}USD"
    assert shown["note"] == f"large 0.0040{THIN}USD, small 0.00010{THIN}USD; 1{THIN}answer without a price".replace(
        f"1{THIN}answer", "1 answer"
    )
    assert cost_number(question, costs[2:])["value"] == "–"
