"""When a trace is complete, and how far the checkpoint may go. Time is given."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.pipeline.recent import SLACK_NS, Recent
from controlplane.telemetry.pipeline.traces import Limits, Traces
from controlplane.telemetry.spans import Span
from controlplane.telemetry.spool.frame import Position

LIMITS = Limits(quiet_s=1.0, open_s=10.0, pending_bytes=1000, trace_spans=5)


def span(trace: str, start_ns: int = 5) -> tuple[Span, int]:
    return Span(trace.encode().ljust(16), os.urandom(8), b"", "", 1, start_ns, 9, 0, "", "", {}), 10


def at(offset: int) -> Position:
    return Position(1, offset)


def due(traces: Traces, now_s: float) -> list[str]:
    return sorted(key.decode().strip() for key, _ in traces.due(now_s))


def test_a_trace_is_due_once_it_has_been_quiet() -> None:
    traces = Traces(LIMITS)
    traces.add([span("a"), span("b")], at(0), 100.0)
    traces.add([span("b")], at(1), 100.6)
    assert traces.next_due_s() == 101.0
    assert due(traces, 100.99) == []
    assert due(traces, 101.0) == ["a"]
    assert due(traces, 101.59) == []
    assert due(traces, 101.6) == ["b"]
    assert traces.next_due_s() is None and traces.bytes == 0


def test_a_trace_that_is_never_quiet_is_due_after_a_while() -> None:
    traces = Traces(LIMITS)
    for tenth in range(25):
        traces.add([span("a")] if tenth % 5 == 0 else [span(f"x{tenth}")], at(tenth), 100 + tenth / 2)
    assert "a" in due(traces, 112.0)


def test_the_oldest_go_early_when_memory_is_short() -> None:
    traces = Traces(LIMITS)
    for number in range(150):
        traces.add([span(f"t{number:03}")], at(number), 100.0)
    assert due(traces, 100.0) == [f"t{number:03}" for number in range(50)]
    assert traces.bytes == LIMITS.pending_bytes


def test_a_trace_of_very_many_spans_does_not_wait_for_more() -> None:
    traces = Traces(LIMITS)
    traces.add([span("a")] * 5 + [span("b")], at(0), 100.0)
    assert due(traces, 100.0) == ["a"]


def test_the_checkpoint_waits_for_the_first_record_of_the_oldest_open_trace() -> None:
    traces = Traces(LIMITS)
    traces.add([span("a")], at(10), 100.0)
    traces.add([span("b")], at(20), 100.1)
    traces.add([span("a")], at(30), 100.2)
    assert traces.checkpoint(at(40)) == at(10)
    assert due(traces, 101.15) == ["b"]
    assert traces.checkpoint(at(40)) == at(10)
    assert due(traces, 101.3) == ["a"]
    assert traces.checkpoint(at(40)) == at(40)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 3)), max_size=60))
def test_every_span_comes_out_exactly_once_and_never_before_the_checkpoint(arrivals: list[tuple[str, float]]) -> None:
    traces, now, out = Traces(LIMITS), 100.0, 0
    for number, (name, later) in enumerate(arrivals):
        now += later
        traces.add([span(name)], at(number), now)
        out += sum(len(trace.spans) for _, trace in traces.due(now))
        assert number + 1 - out <= number + 1 - traces.checkpoint(at(number + 1)).offset
    assert out + sum(len(trace.spans) for _, trace in traces.due(now + 20)) == len(arrivals)
    assert len(traces) == traces.bytes == 0


def test_what_was_closed_is_remembered_across_a_restart_and_what_is_too_old_is_doubted(tmp_path: Path) -> None:
    second = 10**9
    recent = Recent(tmp_path, "recent", 100 * second, size=10)  # eight traces
    recent.add(b"a", 100 * second)
    new = 100 * second + SLACK_NS
    for memory in (recent, Recent(tmp_path, "recent", 999 * second, size=10)):
        assert memory.may_know(b"a", new) and not memory.may_know(b"b", new)
        assert memory.may_know(b"b", new - 1), "it may have been closed before the memory began"


def test_the_memory_forgets_the_older_half_and_knows_it(tmp_path: Path) -> None:
    second = 10**9
    recent = Recent(tmp_path, "recent", 0, size=1000)
    known = [os.urandom(16) for _ in range(2000)]
    for number, trace_id in enumerate(known):
        recent.add(trace_id, (100 + number) * second)
    later = 10**6 * second
    remembered = [trace_id for trace_id in known if recent.may_know(trace_id, later)]
    assert set(known[800:]) <= set(remembered) and len(remembered) < 1300
    assert all(recent.may_know(trace_id, 500 * second) for trace_id in known), "too old to be sure"


def test_strangers_are_hardly_ever_taken_for_known(tmp_path: Path) -> None:
    recent = Recent(tmp_path, "recent", 0, size=10_000)
    for _ in range(8000):
        recent.add(os.urandom(16), 1)
    assert sum(recent.may_know(os.urandom(16), 10**18) for _ in range(2000)) < 60
