"""When a trace is complete, and how far the checkpoint may move."""

import os
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ingest.otlp.decode.columnar import Listed
from controlplane.telemetry.ingest.pipeline.closed_traces import SLACK_NS, ClosedTraces
from controlplane.telemetry.ingest.pipeline.traces import Limits, Traces
from controlplane.telemetry.ingest.spool.frame import Position

LIMITS = Limits(quiet_s=1.0, open_s=10.0, pending_bytes=1000, trace_spans=5)


def span(trace: str, start_ns: int = 5) -> tuple[Span, int]:
    return Span(trace.encode().ljust(16), os.urandom(8), b"", "", 1, start_ns, 9, 0, "", "", {}), 10


def at(offset: int) -> Position:
    return Position(1, offset)


def due(traces: Traces, now_s: float) -> list[str]:
    return sorted(key.decode().strip() for key, _ in traces.due(now_s))


def test_a_trace_is_due_once_it_has_been_quiet() -> None:
    traces = Traces(LIMITS)
    traces.add(Listed([span("a"), span("b")]), at(0), 100.0)
    traces.add(Listed([span("b")]), at(1), 100.6)
    assert traces.next_due_s() == 101.0
    assert due(traces, 100.99) == []
    assert due(traces, 101.0) == ["a"]
    assert due(traces, 101.59) == []
    assert due(traces, 101.6) == ["b"]
    assert traces.next_due_s() is None and traces.bytes == 0


def test_a_trace_that_is_never_quiet_is_due_after_a_while() -> None:
    traces = Traces(LIMITS)
    for tenth in range(25):
        traces.add(Listed([span("a" if tenth % 5 == 0 else f"x{tenth}")]), at(tenth), 100 + tenth / 2)
    assert "a" in due(traces, 112.0)


def test_the_oldest_go_early_when_memory_is_short() -> None:
    traces = Traces(LIMITS)
    for number in range(150):
        traces.add(Listed([span(f"t{number:03}")]), at(number), 100.0)
    assert due(traces, 100.0) == [f"t{number:03}" for number in range(50)]
    assert traces.bytes == LIMITS.pending_bytes


def test_a_trace_of_very_many_spans_is_not_held_and_due_once_in_a_while() -> None:
    traces = Traces(LIMITS)
    closed: list[float] = []
    for second in range(45):
        traces.add(Listed([span("a")] * 6 + [span(f"b{second}")]), at(second), 100.0 + second)
        assert traces.bytes <= 20, "of the large one nothing is held"
        for key, trace in traces.due(100.0 + second):
            if key.startswith(b"a"):
                assert trace.large and not trace.parts
                closed.append(second)
    assert closed == [10, 21, 32, 43]


def test_a_trace_that_grows_too_large_lets_go_of_what_it_held() -> None:
    traces = Traces(LIMITS)
    for number in range(3):
        traces.add(Listed([span("a")] * 2), at(number), 100.0)
    assert traces.bytes == 0 and traces.checkpoint(at(9)) == at(0), "its spans are in the store before it is closed"
    assert due(traces, 101.5) == [] and due(traces, 110.0) == ["a"]
    assert traces.checkpoint(at(9)) == at(9)


def test_the_checkpoint_waits_for_the_first_record_of_the_oldest_open_trace() -> None:
    traces = Traces(LIMITS)
    traces.add(Listed([span("a")]), at(10), 100.0)
    traces.add(Listed([span("b")]), at(20), 100.1)
    traces.add(Listed([span("a")]), at(30), 100.2)
    assert traces.checkpoint(at(40)) == at(10)
    assert due(traces, 101.15) == ["b"]
    assert traces.checkpoint(at(40)) == at(10)
    assert due(traces, 101.3) == ["a"]
    assert traces.checkpoint(at(40)) == at(40)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 3)), max_size=60))
def test_every_span_comes_out_exactly_once_and_never_before_the_checkpoint(arrivals: list[tuple[str, float]]) -> None:
    traces, now, out = Traces(replace(LIMITS, trace_spans=100)), 100.0, 0
    for number, (name, later) in enumerate(arrivals):
        now += later
        traces.add(Listed([span(name)]), at(number), now)
        out += sum(len(trace.spans()) for _, trace in traces.due(now))
        assert number + 1 - out <= number + 1 - traces.checkpoint(at(number + 1)).offset
    assert out + sum(len(trace.spans()) for _, trace in traces.due(now + 20)) == len(arrivals)
    assert traces.bytes == 0


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_what_was_closed_is_remembered_across_a_restart_and_what_is_too_old_is_doubted(tmp_path: Path) -> None:
    second = 10**9
    recent = ClosedTraces(tmp_path, "recent", 100 * second, size=10)  # eight traces
    one, other = trace_id(1), trace_id(2)
    recent.add([one], 100 * second)
    new = 100 * second + SLACK_NS
    for memory in (recent, ClosedTraces(tmp_path, "recent", 999 * second, size=10)):
        assert memory.may_know([one, other], [new, new]) == [True, False]
        assert memory.may_know([other], [new - 1]) == [True], "it may have been closed before the memory began"


def test_the_memory_forgets_the_older_half_and_knows_it(tmp_path: Path) -> None:
    second = 10**9
    recent = ClosedTraces(tmp_path, "recent", 0, size=1000)
    known = [trace_id(number) for number in range(2000)]
    for number in range(0, 2000, 10):
        recent.add(known[number : number + 10], (100 + number) * second)
    later = [10**6 * second] * 2000
    remembered = {one for one, may in zip(known, recent.may_know(known, later), strict=True) if may}
    assert set(known[800:]) <= remembered and len(remembered) < 1300
    assert all(recent.may_know(known, [500 * second] * 2000)), "too old to be sure"


def test_many_at_once_are_remembered_though_they_fill_the_memory_several_times(tmp_path: Path) -> None:
    recent = ClosedTraces(tmp_path, "recent", 0, size=1000)
    known = [trace_id(number) for number in range(2000)]
    recent.add(known, 1)
    assert all(recent.may_know(known[-800:], [10**18] * 800))


def test_strangers_are_hardly_ever_taken_for_known(tmp_path: Path) -> None:
    recent = ClosedTraces(tmp_path, "recent", 0, size=10_000)
    recent.add([trace_id(number) for number in range(8000)], 1)
    assert sum(recent.may_know([os.urandom(16) for _ in range(2000)], [10**18] * 2000)) < 60


def part_of(trace: str, parent: bytes) -> tuple[Span, int]:
    made, size = span(trace)
    return made._replace(parent_id=parent), size


def test_a_trace_without_its_root_waits_for_it() -> None:
    traces = Traces(replace(LIMITS, root_s=7.0))
    traces.add(Listed([part_of("a", b"p" * 8), part_of("b", b"p" * 8)]), at(0), 100.0)
    assert due(traces, 101.0) == []
    assert traces.next_due_s() == 107.0
    traces.add(Listed([span("a")]), at(1), 104.0)
    assert due(traces, 105.0) == ["a"], "its root has come, and it has been quiet"
    assert due(traces, 107.0) == ["b"], "it did not come"


def test_a_closed_trace_is_kept_for_late_spans() -> None:
    traces = Traces(LIMITS)
    traces.add(Listed([span("a"), span("b")]), at(0), 100.0)
    for key, trace in traces.due(101.0):
        traces.keep(key, trace, frozenset(), 101.0)
    assert traces.checkpoint(at(1)) == at(1), "what is kept need not be read again"
    traces.add(Listed([span("a")]), at(2), 105.0)
    assert traces.checkpoint(at(3)) == at(2)
    [(_, again)] = traces.due(106.0)
    assert len(again.spans()) == 2 and again.requests == frozenset()
    traces.due(132.0)
    traces.add(Listed([span("b")]), at(4), 132.0)
    [(_, late)] = traces.due(133.0)
    assert len(late.spans()) == 1 and late.requests is None, "it was kept for 30 s"


def test_what_is_kept_is_bounded_and_can_be_forgotten() -> None:
    traces = Traces(replace(LIMITS, kept_bytes=20))
    traces.add(Listed([span("a"), span("b"), span("c")]), at(0), 100.0)
    for key, trace in sorted(traces.due(101.0), key=lambda pair: pair[0]):
        traces.keep(key, trace, frozenset(), 101.0)
    traces.due(101.0)
    traces.forget([b"b".ljust(16)])
    traces.add(Listed([span("a"), span("b"), span("c")]), at(1), 102.0)
    assert {key.decode().strip(): len(trace.spans()) for key, trace in traces.due(103.0)} == {"a": 1, "b": 1, "c": 2}
