"""Pipelines of one or two processes that get the spans of each trace at random, go on in any order between any two calls of the store, and
are killed there: each request is one row, the same that one process makes of all its spans.

A history is known by its seed. `controlplane/telemetry/test_dealt.py` has real processes and a real store.
"""

import random
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from controlplane.telemetry.ingest.otlp.decode import export_request
from controlplane.telemetry.ingest.pipeline import sink, worker
from tests.support.soak import sized
from tests.support.telemetry.pipeline.dealt_traces import DealtTrace, merged
from tests.support.telemetry.pipeline.lockstep import Clock, Pipeline, Spool, Tables, random_limits

HISTORIES = sized(150, soak=20_000)
MAX_ROUNDS = 100
"""Until all is in the store, once nobody is killed any more. A round is a second."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (worker, sink):
        monkeypatch.setattr(module, "time", clock)
    export_request.prepare(reading=True)
    return clock


def go_on(source: random.Random, pipelines: Sequence[Pipeline], clock: Clock, kill: float) -> None:
    """One of the pipelines does something, or a moment passes."""
    pipeline, chosen = source.choice(pipelines), source.random()
    if chosen < kill:
        pipeline.kill()
    elif chosen < 0.4:
        clock.now_s += source.choice((0.0, 0.1, 1.0))
        pipeline.work()
    elif pipeline.writes:
        pipeline.advance()


def settle(pipelines: Sequence[Pipeline], clock: Clock) -> bool:
    """Whether all of it is in the store in the end."""
    for _ in range(MAX_ROUNDS):
        clock.now_s += 1.0
        for pipeline in pipelines:
            pipeline.work()
            while pipeline.writes:
                pipeline.advance()
        if all(pipeline.is_done for pipeline in pipelines):
            return True
    return False


def history(seed: int, folder: Path, clock: Clock) -> None:
    source, tables, limits = random.Random(seed), Tables(), random_limits(random.Random(seed))
    kill = source.choice((0.0, 0.02, 0.1))
    with ExitStack() as stack:
        spools, pipelines = [Spool() for _ in range(source.choice((1, 2)))], []
        for process, spool in enumerate(spools):
            shards = source.choice((1, 2))
            for shard in range(shards):
                pipeline = Pipeline(
                    folder / f"{process}-{shard}", tables, spool, shard=shard, shards=shards, limits=limits, clock=clock
                )
                pipelines.append(stack.enter_context(closing(pipeline)))
        traces = [DealtTrace(source, clock.time_ns()) for _ in range(source.choice((1, 2, 3)))]
        hands = source.choice((2, 3, 4))
        dealt = [trace.dealt(hands) for trace in traces]
        for hand in range(hands):
            body = merged([bodies[hand] for bodies in dealt])
            for _ in range(source.choice((1, 1, 1, 2))):  # an exporter that was not answered sends it again
                source.choice(spools).append(body, clock.time_ns())
                for _ in range(source.choice((0, 3, 10, 40))):
                    go_on(source, pipelines, clock, kill)
        assert settle(pipelines, clock), f"seed {seed}: it does not come to rest"
        refused = [item for pipeline in pipelines for item in pipeline.refused]
        assert not refused, f"seed {seed}: {refused}"
    rows = sorted(tables.requests(), key=lambda row: row.trace_id)
    assert rows == sorted((trace.row() for trace in traces), key=lambda row: row.trace_id), f"seed {seed}"


def test_each_request_is_one_row_in_any_order_of_calls_and_kills(tmp_path: Path, clock: Clock) -> None:
    for seed in range(HISTORIES):
        history(seed, tmp_path / str(seed), clock)
