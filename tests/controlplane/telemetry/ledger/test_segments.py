"""The segments of a request for a waterfall, which sum to the row's stages."""

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings

from controlplane.telemetry.core.spans import CLIENT, Span
from controlplane.telemetry.ledger import close
from controlplane.telemetry.ledger.path_segments import segments
from tests.support.soak import sized
from tests.support.telemetry.any_trace import traces
from tests.support.telemetry.ledger_traces import gateway_trace, in_gateway, span


def test_they_follow_one_another_from_start_to_end() -> None:
    spans = in_gateway()
    found = segments(spans, spans[0].span_id.hex())
    assert (found[0].start_ns, found[-1].end_ns) == (1000, 2000)
    assert all(one.end_ns == following.start_ns for one, following in pairwise(found))
    assert [(s.stage, s.end_ns - s.start_ns) for s in found[5:9]] == [
        ("network", 10),
        ("unattributed", 2),
        ("unattributed", 3),
        ("queue", 75),
    ]


def test_a_span_whose_clock_is_off_is_placed_by_its_own_clock() -> None:
    caller = span("POST", 0, 1200, kind=CLIENT)
    spans = [caller, *gateway_trace(5000, parent=caller)]
    found = segments(spans, spans[1].span_id.hex())
    assert [s.start_ns for s in found if s.stage == "egress"] == [5970]


def test_of_an_unknown_request_there_are_none() -> None:
    assert segments(gateway_trace(), "00" * 8) == []
    assert segments([], "00" * 8) == []


def spent_by(trace: list[Span], request_id: str) -> Counter[str]:
    spent = Counter[str]()
    for segment in segments(trace, request_id):
        spent[segment.stage] += segment.end_ns - segment.start_ns
    return spent


def test_weirs_own_work_around_a_request_takes_none_of_its_time() -> None:
    own = span("tick", 900, 2100, kind=CLIENT, service="web", weir__internal=True)
    trace = [own, *gateway_trace(parent=own)]
    (row,) = close(trace)
    assert row.stages["network"] == 0
    assert spent_by(trace, row.request_id) == Counter(row.stages | {"unattributed": row.unattributed_ns})


@settings(max_examples=sized(30, soak=400), deadline=None)
@given(traces)
def test_by_stage_they_sum_to_the_row(trace: list[Span]) -> None:
    for row in close(trace):
        assert spent_by(trace, row.request_id) == Counter(row.stages | {"unattributed": row.unattributed_ns})
