"""SIGKILL at random moments under load: every acknowledged span is in the store, once.

`WEIR_KILL_SEED` repeats a run.
"""

import os
import random
import time

import pytest

from tests.support.telemetry.process import Run, Running
from tests.support.telemetry.sender import SPANS_OF_A_TRACE, Sender, all_there_once
from tests.support.wait import eventually

# In `make test`, test_isolation.py and ingest/test_remote_write.py kill it once.
pytestmark = pytest.mark.soak
KILLS = 100
SEED = int(os.environ.get("WEIR_KILL_SEED", time.time_ns() % 10**6))


def test_nothing_acknowledged_is_lost_and_nothing_counts_twice(run: Run) -> None:
    source = random.Random(SEED)
    print(f"WEIR_KILL_SEED={SEED}")
    began = time.time_ns()
    telemetry = run(spool_segment_bytes=64 * 1024).ready()
    sender = Sender(telemetry, SEED)
    sender.start()
    try:
        for _ in range(KILLS):
            time.sleep(source.uniform(0.0, 4.0))  # the moment is the point
            victim = source.choice(["telemetry", "telemetry", "store", "ingest.pipeline"])
            if victim == "telemetry":
                telemetry.kill()
                telemetry.start()
            else:
                telemetry.kill_child(victim)
    finally:
        sender.end()
    assert sender.acknowledged and sender.resent, "the receiver was killed, so something was sent again"
    telemetry.ready()
    work_off(telemetry)
    with telemetry.store() as store:
        all_there_once(store, sender, began)
        known = sorted(sender.acknowledged)
        for trace in source.sample(known, min(200, len(known))):
            [row] = store.requests.request_rows(trace)
            assert row.span_count == SPANS_OF_A_TRACE


def work_off(telemetry: Running) -> None:
    """Wait until the spool is worked off. After many kills that takes minutes, because little was stored meanwhile."""

    def done() -> bool:
        return telemetry.metric("weir_ingest_behind_seconds") == 0

    while not done():
        left = telemetry.metric("weir_spool_bytes")
        eventually(lambda: done() or telemetry.metric("weir_spool_bytes") < left, "the spool is worked off")  # noqa: B023
