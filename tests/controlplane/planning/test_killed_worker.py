"""A worker that is killed in the middle of a refresh: the next goes on where it was, and nothing of the first is left."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil

from controlplane.telemetry.store import Store
from deploy.local.process import ROOT
from tests.support.deploy.migrated import migrate_home
from tests.support.planning.stored_demand import store_demand, store_recorded
from tests.support.wait import eventually

WORKER = (sys.executable, "-m", "tests.support.planning.worker_of_jobs")
KEYS = [(f"model-{number}", "premium", "eu") for number in range(4)]
STEPS = 2 * 288


def rows(home: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / "weir.sqlite3", timeout=60)) as database, database:
        return database.execute(sql).fetchall()


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_refresh_goes_on_after_its_worker_was_killed(store: Store, dsn: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "WEIR_HOME": str(tmp_path),
        "WEIR_STORE_DSN": dsn,
        "WEIR_FORECAST_PROCESSES": "1",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }
    migrate_home(tmp_path)
    from_s = int(time.time()) // 300 * 300 - STEPS * 300
    for number, key in enumerate(KEYS):
        counts = np.random.default_rng(number).poisson(200, STEPS)
        store_demand(store, from_s, counts, key, finished=not number)
    store_recorded(store, from_s, [300.0] * STEPS)
    rows(
        tmp_path,
        "INSERT INTO planning_planjob (kind, state, request, author, created_at, done, total, note, holder, attempt,"
        " cancel_requested, result, error)"
        " VALUES ('refresh', 'queued', '{}', '', datetime('now'), 0, 0, '', '', 0, 0, '{}', '')",
    )
    with subprocess.Popen(WORKER, cwd=ROOT, env=environment) as first:
        eventually(lambda: rows(tmp_path, "SELECT count(*) FROM planning_storedforecast") > [(0,)])
        children = psutil.Process(first.pid).children(recursive=True)
        first.kill()
    eventually(lambda: not any(lives(child) for child in children))  # its fits end with it
    chosen = dict(rows(tmp_path, "SELECT id, chosen_at FROM planning_storedforecast"))
    assert 0 < len(chosen) < 12 * len(KEYS), "it was killed in the middle"
    assert rows(tmp_path, "SELECT state FROM planning_planjob") == [("running",)]
    rows(tmp_path, "UPDATE planning_planjob SET seen_at = datetime('now', '-5 minutes')")
    subprocess.run(WORKER, cwd=ROOT, env=environment, check=True, timeout=120)
    assert rows(tmp_path, "SELECT state, attempt FROM planning_planjob") == [("done", 2)]
    after = dict(rows(tmp_path, "SELECT id, chosen_at FROM planning_storedforecast"))
    assert len(after) == 12 * len(KEYS)
    assert chosen.items() <= after.items(), "what was done is not done again"
