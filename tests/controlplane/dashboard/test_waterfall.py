"""The waterfall of a trace."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.dashboard.core.waterfall import ticks, waterfall
from controlplane.telemetry.core.spans import Link, Span
from controlplane.telemetry.ledger.close import close
from controlplane.telemetry.ledger.path_segments import segments
from tests.support.web import traffic

START = 1_795_000_000 * 10**9
MISS = traffic.request(random.Random(5), START, busy=0.5, model="chat-large")


def span(name: str, start: int, end: int, span_id: bytes, parent: bytes = b"") -> Span:
    return Span(bytes(16), span_id, parent, name, 1, START + start, START + end, 0, "a", "", {})


def test_children_follow_their_parent_by_start() -> None:
    spans = [
        span("late", 50, 60, b"c" * 8, b"r" * 8), span("root", 0, 100, b"r" * 8),
        span("early", 10, 40, b"b" * 8, b"r" * 8), span("inner", 15, 20, b"i" * 8, b"b" * 8),
    ]  # fmt: skip
    assert [(row.name, row.depth) for row in waterfall(spans, []).rows] == [
        ("root", 0),
        ("early", 1),
        ("inner", 2),
        ("late", 1),
    ]


def test_a_span_whose_parent_is_missing_says_so() -> None:
    [row] = waterfall([span("alone", 0, 10, b"a" * 8, b"z" * 8)], []).rows
    assert row.orphan


@pytest.mark.parametrize("parent", [b"a" * 8, b"b" * 8])
def test_a_cycle_is_drawn_once(parent: bytes) -> None:
    spans = [span("a", 0, 10, b"a" * 8, parent), span("b", 0, 10, b"b" * 8, b"a" * 8)]
    assert sorted(row.name for row in waterfall(spans, []).rows) == ["a", "b"]


def test_the_critical_path_of_a_real_request_is_coloured_as_its_ledger() -> None:
    [ledger] = close(MISS)
    drawn = waterfall(MISS, segments(MISS, ledger.request_id))
    assert sum(row.on_path_ns for row in drawn.rows) == ledger.e2e_ns
    assert {mark.stage for row in drawn.rows for mark in row.path} >= {"gateway", "cache", "queue", "model"}
    assert drawn.rows[0].name == "chat chat-large"


def test_segments_sum_to_the_ledger_and_leave_no_gap() -> None:
    for spans in traffic.requests(50, START, START + 10**11):
        [ledger] = close(spans)
        found = segments(spans, ledger.request_id)
        assert found[0].start_ns == ledger.start_ns
        assert found[-1].end_ns == ledger.end_ns
        assert all(one.end_ns == next_one.start_ns for one, next_one in pairwise(found))
        for stage, expected_ns in [*ledger.stages.items(), ("unattributed", ledger.unattributed_ns)]:
            assert sum(part.end_ns - part.start_ns for part in found if part.stage == stage) == expected_ns


def test_segments_of_a_request_that_the_trace_does_not_hold_are_none() -> None:
    assert segments(MISS, "0" * 16) == segments([], "0" * 16) == []


def test_at_most_so_many_rows_are_drawn_and_the_rest_is_counted() -> None:
    spans = [span(str(number), number, number + 1, number.to_bytes(8)) for number in range(1, 40)]
    drawn = waterfall(spans, [], most=30)
    assert (len(drawn.rows), drawn.left_out) == (30, 9)


@given(
    st.lists(
        st.tuples(st.integers(-(10**9), 10**10), st.integers(-5, 10**10), st.integers(0, 6), st.integers(0, 6)),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_the_spans_every_bar_lies_within_the_picture(drawn: list[tuple[int, int, int, int]]) -> None:
    spans = [
        span("x", start, start + length, own.to_bytes(8), parent.to_bytes(8)) for start, length, own, parent in drawn
    ]
    for row in waterfall(spans, []).rows:
        assert 0 <= row.x <= 1000
        assert row.width > 0
        assert row.x + row.width <= 1002


@given(st.integers(1, 10**13))
def test_ticks_are_round_and_few(length_ns: int) -> None:
    found = ticks(length_ns)
    assert 1 <= len(found) <= 7
    assert found[0].offset_ns == 0
    assert all(0 <= tick.percent <= 100 for tick in found)
    if len(found) > 1:
        assert str(found[1].offset_ns).rstrip("0") in ("1", "2", "5")


def test_what_a_spans_status_links_and_resource_say_is_among_its_details() -> None:
    linked = Link(bytes.fromhex("ab" * 16), bytes.fromhex("cd" * 8), {"why": "joined"})
    said = span("x", 0, 5, b"a" * 8)._replace(
        status_message="out of memory", links=(linked,), resource={"k8s.pod.name": "vllm-0"}
    )
    [row] = waterfall([said], []).rows
    shown = {name: value for name, value, _ in row.details}
    assert shown["status"] == "out of memory"
    assert shown["link"] == f"trace {'ab' * 16}, span {'cd' * 8} · why=joined"
    assert shown["resource k8s.pod.name"] == "vllm-0"
