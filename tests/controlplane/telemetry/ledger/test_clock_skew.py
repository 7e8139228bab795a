"""Clocks that disagree: a child of another process outside its parent is moved, as Jaeger moves it."""

import pytest

from controlplane.telemetry.core.spans import CLIENT, SERVER
from controlplane.telemetry.ledger import close
from controlplane.telemetry.ledger.tree import build
from tests.support.telemetry.ledger_traces import assert_closes, gateway, gateway_trace, span, spent


def test_a_server_whose_clock_runs_ahead_is_centred_in_its_client_with_all_beneath_it() -> None:
    caller = span("POST", 0, 1200, kind=CLIENT)
    ahead = 7_000_000
    (row,) = close([caller, *gateway_trace(ahead, parent=caller)])
    assert (row.start_ns, row.end_ns) == (0, 1200)
    assert row.entry_start_ns == ahead  # as its own clock said
    assert row.stages["network"] == 200
    assert row.stages["model"] == 770
    assert (row.prefill_ns, row.decode_ns) == (200, 570)  # the first token moved along
    assert_closes([row])


@pytest.mark.parametrize(
    ("began", "ended", "placed"),
    [
        (120, 200, (120, 200)),  # within it: left alone
        (100, 180, (100, 180)),
        (90, 170, (110, 190)),
        (130, 210, (110, 190)),
        (130, 230, (100, 200)),  # as long as its client
        (50, 151, (100, 201)),  # longer: kept from starting before it
        (130, 250, (130, 250)),
    ],
)
def test_where_a_server_is_placed_in_its_client(began: int, ended: int, placed: tuple[int, int]) -> None:
    caller = span("POST", 100, 200, kind=CLIENT)
    served = span("chat", began, ended, caller, kind=SERVER)
    step = span("step", began + 1, ended - 1, served)
    _, server, within = build([caller, served, step]).nodes
    assert (server.start, server.end) == placed
    assert (within.start - server.start, server.end - within.end) == (1, 1)


def test_within_one_process_nothing_is_moved() -> None:
    root = gateway("chat x", 0, 100, weir__request=True)
    (row,) = close(
        [root, gateway("late", 200, 220, root, stage="cache"), gateway("long", 90, 150, root, stage="egress")]
    )
    assert spent(row) == {"egress": 10, "unattributed": 90}


def test_a_call_within_one_process_moves_nothing_whatever_its_kind() -> None:
    root = gateway("chat x", 0, 100, weir__request=True)
    call = gateway("call", 10, 90, root, kind=CLIENT, stage="model")
    (row,) = close([root, call, gateway("late", 85, 120, call, stage="cache")])
    assert spent(row) == {"model": 75, "cache": 5, "unattributed": 20}


def test_a_consumer_of_a_message_is_left_where_it_is() -> None:
    root = span("handle", 0, 100, kind=SERVER)
    (row,) = close([root, span("consume", 500, 520, root, kind=5, service="worker")])
    assert spent(row) == {"unattributed": 100}


def test_an_engine_an_hour_off_still_explains_its_part_of_the_gateways_call() -> None:
    spans = gateway_trace()
    hour = 3600 * 10**9
    engine = span(
        "llm_request", hour, hour + 700, spans[5], kind=SERVER, service="vllm", gen_ai__latency__time_in_queue=100e-9
    )
    (row,) = close([*spans, engine])
    assert (row.stages["network"], row.stages["queue"], row.stages["model"]) == (70, 200, 600)
