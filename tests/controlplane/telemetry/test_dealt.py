"""The spans of every trace go at random to two telemetry processes on one store, which are killed meanwhile. Each request must be one row,
the same that one process makes of all its spans.

`WEIR_KILL_SEED` repeats a run.
"""

import os
import random
import time
import urllib.error
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path

import pytest

from controlplane.telemetry.store import Store
from tests.support.telemetry.embedded_store import dsn_of, store_process
from tests.support.telemetry.pipeline.dealt_traces import DealtTrace, merged
from tests.support.telemetry.process import Run, Running
from tests.support.wait import eventually

# In `make test`, ingest/pipeline/test_schedules.py has pipelines in one process that are killed between any two calls of the store.
pytestmark = pytest.mark.soak
KILLS = 100
SEED = int(os.environ.get("WEIR_KILL_SEED", time.time_ns() % 10**6))
TRACES_A_ROUND = 40


def send(processes: Sequence[Running], body: bytes, source: random.Random) -> None:
    """Send the body as an exporter behind a balancer does, until one of the processes has acknowledged it; now and then once more."""
    left = source.choice((1, 1, 1, 2))
    while left:
        try:
            if source.choice(processes).post(body)[0] == 200:
                left -= 1
        except (OSError, urllib.error.URLError, HTTPException):
            pass  # it was killed: it may have taken the body, and another gets it too


@pytest.fixture
def dsn(tmp_path: Path) -> Iterator[str]:
    with store_process(tmp_path / "clickhouse") as process:
        yield dsn_of(process)


def test_each_request_is_one_row_whoever_got_its_spans(run: Run, dsn: str) -> None:
    source = random.Random(SEED)
    print(f"WEIR_KILL_SEED={SEED}")
    processes = [run(store_dsn=dsn, spool_segment_bytes=64 * 1024, pipelines=number) for number in (1, 2)]
    for telemetry in processes:
        telemetry.ready()
    traces: list[DealtTrace] = []
    for _ in range(KILLS):
        some = [DealtTrace(source, time.time_ns()) for _ in range(TRACES_A_ROUND)]
        traces += some
        hands = [trace.dealt(3) for trace in some]
        for hand in range(3):
            body = merged([dealt[hand] for dealt in hands])
            send(processes, body, source)
            time.sleep(source.choice((0.0, 0.1, 0.5, 1.5)))  # so that parts are closed before others come
            if source.random() < 0.4:
                victim = source.choice(processes)
                if source.random() < 0.5:
                    victim.kill()
                    victim.start()
                else:
                    victim.kill_child("ingest.pipeline")
    for telemetry in processes:
        telemetry.ready()
        eventually(lambda telemetry=telemetry: telemetry.metric("weir_ingest_behind_seconds") == 0, "worked off")
    store = Store(dsn)
    try:
        expected = {trace.id.hex(): trace.row() for trace in traces}
        found = {trace_id: store.requests.request_rows(trace_id) for trace_id in expected}
        unlike = {
            trace_id: [row.service for row in rows] for trace_id, rows in found.items() if rows != [expected[trace_id]]
        }
        assert not unlike, f"{len(unlike)} of {len(traces)} traces, rows by service: {list(unlike.values())[:8]}"
        assert store.rows("SELECT count() FROM requests FINAL") == [(len(traces),)]
    finally:
        store.close()
