"""Spans that Triton put into a trace of its own come back into the caller's."""

from controlplane.telemetry.otlp.rejoin import MOST_HOMES, Homes, rejoin
from controlplane.telemetry.spans import SERVER, Span

CALLER = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
CALL = bytes.fromhex("00f067aa0ba902b7")
OWN = bytes(15) + b"\x07"


def span(name: str, span_id: int, parent_id: int = 0, trace_id: bytes = OWN, **attributes: str) -> tuple[Span, int]:
    named = {f"triton.{key}": value for key, value in attributes.items()}
    parent = parent_id.to_bytes(8, "big") if parent_id else b""
    return Span(trace_id, span_id.to_bytes(8, "big"), parent, name, SERVER, 1, 2, 0, "triton", "", named), 100


def triton_request(request_id: str, trace_id: bytes = OWN) -> list[tuple[Span, int]]:
    return [
        span("compute", 3, 2, trace_id),
        span("chat_small", 2, 1, trace_id, request_id=request_id),
        span("InferRequest", 1, 0, trace_id),
    ]


def test_it_moves_all_of_a_lost_request_under_the_call_it_names() -> None:
    moved = [s for s, _ in rejoin(triton_request(f"00-{CALLER.hex()}-{CALL.hex()}-01"), {})]
    assert {s.trace_id for s in moved} == {CALLER}
    assert [s.parent_id for s in moved] == [(2).to_bytes(8, "big"), (1).to_bytes(8, "big"), CALL]


def test_it_leaves_spans_that_are_where_they_belong() -> None:
    spans = triton_request(f"00-{CALLER.hex()}-{CALL.hex()}-01", CALLER)
    assert rejoin(spans, {}) == spans


def test_it_leaves_other_traces_of_the_same_export_alone() -> None:
    other = triton_request("7", bytes(15) + b"\x09")
    assert rejoin(triton_request(f"00-{CALLER.hex()}-{CALL.hex()}-01") + other, {})[3:] == other


def test_it_believes_only_a_whole_traceparent() -> None:
    for said in (
        "",
        "abc",
        f"00-{'0' * 32}-{CALL.hex()}-01",
        f"00-{CALLER.hex()}-{'0' * 16}-01",
        f"x00-{CALLER.hex()}-{CALL.hex()}-01",
    ):
        spans = triton_request(said)
        assert rejoin(spans, {}) == spans


def test_it_remembers_a_lost_trace_for_the_spans_that_end_later() -> None:
    home: Homes = {}
    *inner, outer = triton_request(f"00-{CALLER.hex()}-{CALL.hex()}-01")
    rejoin(inner, home)
    [(moved, _)] = rejoin([outer], home)
    assert (moved.trace_id, moved.parent_id) == (CALLER, CALL)


def test_it_remembers_only_so_many() -> None:
    home: Homes = {}
    for number in range(MOST_HOMES + 10):
        rejoin(triton_request(f"00-{CALLER.hex()}-{CALL.hex()}-01", number.to_bytes(16, "big")), home)
    assert len(home) == MOST_HOMES
