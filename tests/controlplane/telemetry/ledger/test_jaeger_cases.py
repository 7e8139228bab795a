"""The critical paths that Jaeger publishes as its own tests (CriticalPath/testCases), times as there."""

import pytest

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.critical_path import critical_path
from controlplane.telemetry.ledger.tree import build
from tests.support.telemetry.ledger_traces import span

CONSUMER = 5
Drawn = tuple[str, str, int, int]  # name, parent's name, start, end
Path = list[tuple[str, int, int]]

CASES: dict[str, tuple[list[Drawn], Path]] = {
    "1: children one after another": (
        [("C", "", 1, 101), ("D", "C", 20, 40), ("E", "C", 50, 60)],
        [("C", 60, 101), ("E", 50, 60), ("C", 40, 50), ("D", 20, 40), ("C", 1, 20)],
    ),
    "2: children side by side, the last to finish counts": (
        [("X", "", 1, 101), ("A", "X", 10, 50), ("C", "X", 20, 60)],
        [("X", 60, 101), ("C", 20, 60), ("X", 1, 20)],
    ),
    "3: a child that starts after its parent's end is dropped": (
        [("A", "", 100, 140), ("B", "A", 200, 500)],
        [("A", 100, 140)],
    ),
    "4: so are its own children": (
        [("A", "", 1, 31), ("B", "A", 40, 80), ("C", "B", 50, 60)],
        [("A", 1, 31)],
    ),
    "6: a child that outlives its parent is cut, its early child too": (
        [("A", "", 1, 30), ("B", "A", 15, 35), ("C", "B", 10, 25)],
        [("B", 25, 30), ("C", 15, 25), ("A", 1, 15)],
    ),
    "7: each generation outlives the one before": (
        [("A", "", 1, 30), ("B", "A", 15, 35), ("C", "B", 20, 40)],
        [("C", 20, 30), ("B", 15, 20), ("A", 1, 15)],
    ),
    "8: a child around its parent takes all of it": (
        [("A", "", 10, 30), ("B", "A", 5, 35)],
        [("B", 10, 30)],
    ),
    "9: a child that ended before its parent began is dropped": (
        [("A", "", 10, 30), ("B", "A", 1, 5)],
        [("A", 10, 30)],
    ),
}


def path_of(spans: list[Span]) -> Path:
    tree = build(spans)
    root = tree.roots[0]
    return [(node.span.name, start, end) for node, start, end in critical_path(root, root.start, root.end)]


@pytest.mark.parametrize(("drawn", "expected"), CASES.values(), ids=CASES.keys())
def test_the_path_is_jaegers(drawn: list[Drawn], expected: Path) -> None:
    spans: dict[str, Span] = {}
    for name, parent, start, end in drawn:
        spans[name] = span(name, start, end, spans[parent] if parent else b"")
    assert path_of(list(spans.values())) == expected
    assert path_of(list(reversed(spans.values()))) == expected


def test_5_what_nobody_waits_for_is_dropped_with_all_beneath_it() -> None:
    """Jaeger's case has a FOLLOWS_FROM reference, which is the kind CONSUMER in OTLP."""
    a = span("A", 1, 31)
    b = span("B", 10, 20, a, kind=CONSUMER)
    assert path_of([a, b, span("C", 12, 14, b)]) == [("A", 1, 31)]


def test_a_child_that_ends_where_the_next_starts_is_on_the_path() -> None:
    a = span("A", 0, 100)
    assert path_of([a, span("B", 0, 40, a), span("C", 40, 100, a)]) == [("C", 40, 100), ("B", 0, 40)]


def test_a_slight_overlap_is_a_handover() -> None:
    a = span("A", 0, 100)
    assert path_of([a, span("B", 0, 40, a), span("C", 30, 100, a)]) == [("C", 30, 100), ("B", 0, 30)]


def test_an_overlap_of_more_than_a_quarter_is_work_in_parallel() -> None:
    a = span("A", 0, 100)
    assert path_of([a, span("B", 0, 40, a), span("C", 29, 100, a)]) == [("C", 29, 100), ("A", 0, 29)]


def test_a_child_of_no_length_divides_nothing() -> None:
    a = span("A", 0, 100)
    assert path_of([a, span("B", 40, 40, a)]) == [("A", 0, 100)]


def test_of_children_that_end_together_the_longest_is_on_the_path() -> None:
    a = span("A", 0, 100)
    twins = [span("short", 60, 90, a), span("long", 20, 90, a)]
    assert path_of([a, *twins]) == [("A", 90, 100), ("long", 20, 90), ("A", 0, 20)]


def test_ten_thousand_generations_are_walked() -> None:
    spans = [span("0", 0, 20_000)]
    for depth in range(1, 10_000):
        spans.append(span(str(depth), depth, 20_000 - depth, spans[-1]))
    path = path_of(spans)
    assert sum(end - start for _, start, end in path) == 20_000
    assert len({name for name, _, _ in path}) == 10_000
