"""When requests are due, and what they are, before anything is sent."""

import gzip
import itertools
import json
import re
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.loadtest.core.schedule import CONSTANT, POISSON, Segment, arrivals_s, duration_s, parse_load
from inference.loadtest.core.workload import parse_lengths, planned, planned_of, read_trace

RATES = st.floats(0, 200)
SEGMENTS = st.lists(st.builds(Segment, RATES, RATES, st.floats(0.1, 60)), min_size=1, max_size=5).filter(
    lambda parts: sum((part.from_rps + part.to_rps) / 2 * part.duration_s for part in parts) > 1
)


@given(SEGMENTS, st.sampled_from([0.1, POISSON, 8.0, CONSTANT]), st.integers(0, 1000))
def test_times_are_in_order_inside_the_load_and_the_same_for_the_same_seed(
    segments: list[Segment], shape: float, seed: int
) -> None:
    times = arrivals_s(segments, shape, seed)
    assert times == sorted(times) and times == arrivals_s(segments, shape, seed)
    assert all(0 <= time <= sum(part.duration_s for part in segments) + 1e-6 for time in times)


@given(SEGMENTS)
def test_a_metronome_has_at_each_moment_the_requests_that_were_to_be_expected(segments: list[Segment]) -> None:
    """Also on a ramp and across steps: so many are due until then as the area under the rate."""
    times = arrivals_s(segments, CONSTANT, 1)
    ends = itertools.accumulate(part.duration_s for part in segments)
    areas = itertools.accumulate((part.from_rps + part.to_rps) / 2 * part.duration_s for part in segments)
    for end_s, area in zip(ends, areas, strict=True):
        assert abs(sum(time < end_s - 1e-9 for time in times) - area) <= 1.001


@pytest.mark.parametrize(("shape", "variation"), [(0.25, 2.0), (POISSON, 1.0), (4.0, 0.5)])
def test_burstiness_is_the_variation_of_the_times_between_arrivals(shape: float, variation: float) -> None:
    times = arrivals_s(parse_load("100:200s"), shape, 7)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(variation, rel=0.1)
    assert len(times) == pytest.approx(20_000, rel=0.05)


def test_lengths_come_from_the_mix_by_weight_and_do_not_depend_on_the_times() -> None:
    mix = parse_lengths("100-200/10:3,4000/50:1")
    plan = planned([0.0] * 4000, mix, 4, seed=3)
    assert [row[1:] for row in plan] == [row[1:] for row in planned([9.0] * 4000, mix, 4, seed=3)]
    long = [row for row in plan if row.input_tokens == 4000]
    assert len(long) == pytest.approx(1000, rel=0.15) and {row.output_tokens for row in long} == {50}
    assert all(100 <= row.input_tokens <= 200 and row.output_tokens == 10 for row in plan if row not in long)
    assert {row.prefix for row in plan} == {0, 1, 2, 3}


def test_a_trace_is_read_as_csv_and_as_mooncakes_lines_and_played_faster(tmp_path: Path) -> None:
    table, lines = tmp_path / "trace.csv.gz", tmp_path / "trace.jsonl"
    table.write_bytes(gzip.compress(b"arrival_s,input_tokens,output_tokens\n10,100,5\n14,200,6\n30,300,7\n"))
    rows = [(10_000, 100, 5), (14_000, 200, 6), (30_000, 300, 7)]
    lines.write_text(
        "\n".join(json.dumps({"timestamp": at, "input_length": i, "output_length": o}) for at, i, o in rows)
    )
    assert read_trace(table.name, table.read_bytes()) == read_trace(lines.name, lines.read_bytes())
    plan = planned_of(read_trace(table.name, table.read_bytes()), speed=2.0, until_s=5.0, prefixes=0, seed=1)
    assert [row[:3] for row in plan] == [(0.0, 100, 5), (2.0, 200, 6)]
    table.write_bytes(gzip.compress(b"arrival_s,input_tokens\n10,100\n"))
    with pytest.raises(ValueError, match="request 1: it has no output_tokens"):
        read_trace(table.name, table.read_bytes())
    with pytest.raises(ValueError, match=r"trace.csv.gz, request 1: Not a gzipped file"):
        read_trace("trace.csv.gz", b"arrival_s")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (duration_s, "30"), (duration_s, "0s"), (duration_s, "-1s"), (duration_s, "5 minutes"),
        (parse_load, "5"), (parse_load, "5:"), (parse_load, "a:3s"), (parse_load, "1-2-3:4s"), (parse_load, "nan:3s"),
        (parse_lengths, "200"), (parse_lengths, "0/5"), (parse_lengths, "9-2/5"), (parse_lengths, "1/2:0"), (parse_lengths, "1/99999999"),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_named(read: object, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read(text)


@pytest.mark.parametrize(
    ("load", "reason"), [("0:5s", "no requests"), ("100000:1h", "most of a run"), ("0.0001:1s", "make it longer")]
)
def test_a_load_without_requests_or_with_too_many_is_refused(load: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        arrivals_s(parse_load(load), POISSON, 1)
