"""SIGKILL at random moments while rollups are filled and amended: they equal the ledger.

`WEIR_KILL_SEED` repeats a run.
"""

import os
import random
import time
from dataclasses import replace

import pytest

from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store, StoreUnavailableError
from controlplane.telemetry.store.write.keys import key_of
from tests.support.telemetry.process import Run, Running, eventually
from tests.support.telemetry.rollups import OF_REQUESTS, assert_equals_the_ledger
from tests.support.telemetry.samples import NOON_NS, S, random_rows

KILLS = 50
SEED = int(os.environ.get("WEIR_KILL_SEED", time.time_ns() % 10**6))
HOUR_S = 3600


@pytest.mark.soak  # `test_kill.py` kills in every run, and `store/test_rollups.py` holds them to the ledger
def test_rollups_equal_the_ledger_whatever_was_killed_meanwhile(run: Run) -> None:
    source = random.Random(SEED)
    print(f"WEIR_KILL_SEED={SEED}")
    from_s = int(time.time()) // HOUR_S * HOUR_S - 2 * HOUR_S
    rows = [moved(row, from_s * S) for row in random_rows(3000, SEED)]
    telemetry = run(rollup_every_s=0.05).ready()
    with telemetry.store() as store:
        store.writer.insert_requests(rows, version=1)
    for kill in range(KILLS):
        time.sleep(source.uniform(0.0, 1.5))  # the moment is the point
        if source.random() < 0.5:
            telemetry.kill()
            telemetry.start()
        else:
            telemetry.kill_child("store")
        change(telemetry, source, rows, kill + 2)
    telemetry.ready()
    eventually(lambda: telemetry.metric("weir_rollup_built_stretches_total") > 0, "the last process has filled some")
    with telemetry.store() as store:
        now_ns = time.time_ns()
        eventually(
            lambda: not [one for one in store.rollups.due(now_ns, 30) if one.start_s < from_s + HOUR_S], "filled"
        )
        assert_equals_the_ledger(
            store, from_s, from_s + HOUR_S, [tier for tier in OF_REQUESTS if tier.step_s <= HOUR_S]
        )
    eventually(lambda: telemetry.readiness()["rollups"] == "ok", "and telemetry says so")


def moved(row: LedgerRow, from_ns: int) -> LedgerRow:
    by_ns = from_ns - NOON_NS
    return replace(
        row,
        entry_start_ns=row.entry_start_ns + by_ns,
        start_ns=row.start_ns + by_ns,
        end_ns=row.end_ns + by_ns,
    )


def change(telemetry: Running, source: random.Random, rows: list[LedgerRow], version: int) -> None:
    """Write late, amended and withdrawn rows, when the store is back."""
    amended = [replace(row, model="amended", tier="premium") for row in source.sample(rows, 20)]
    withdrawn = [key_of(row) for row in source.sample(rows, 5)]

    def written() -> bool:
        try:
            with telemetry.store() as store:
                assert isinstance(store, Store)
                store.writer.insert_requests(amended, version=version)
                store.writer.withdraw_requests(withdrawn, version=version)
        except StoreUnavailableError:
            return False
        return True

    eventually(written, "the store takes rows again")
