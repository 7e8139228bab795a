"""The worker as it is started in production: it observes, it beats, and it goes on observing while Redis is away."""

import os
import signal
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from deploy.local.ports import free_port
from deploy.local.process import Command, Managed, http_status
from deploy.local.redis import Redis, redis
from tests.support.deploy.migrated import migrate_home
from tests.support.deploy.run import START_S
from tests.support.start import Start
from tests.support.wait import eventually

CELERY = (sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker")
TOKEN = "a-token-of-ours"


def states(home: Path) -> dict[str, str]:
    with closing(sqlite3.connect(home / "weir.sqlite3", timeout=60)) as database:
        return dict(database.execute("SELECT component, state FROM fleet_observation"))


def log(worker: Managed) -> str:
    return worker.log_tail(100_000)


@dataclass
class Running:
    """A worker with a home and a Redis of its own, which serves its metrics at `port`."""

    home: Path
    redis: Managed
    worker: Managed
    port: int

    def metrics(self, token: str, accept: str = "*/*") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}", "Accept": accept}
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}/metrics", headers=headers), timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, start_once: Start) -> Running:
    """The tests of this file share it, and go from top to bottom."""
    home = tmp_path_factory.mktemp("worker") / "home"
    migrate_home(home)
    server = redis(free_port(), home / "redis")
    process = start_once(server.command)
    port = free_port()
    env = {
        "WEIR_HOME": str(home),
        "WEIR_REDIS_URL": server.url,
        "WEIR_OBSERVE_EVERY_S": "2",
        "WEIR_WORKER_METRICS": f"127.0.0.1:{port}",
        "WEIR_METRICS_TOKEN": TOKEN,
    }
    worker = Command("worker", (*CELERY, "-B"), lambda: http_status(port, "/metrics") == 401, env, start_s=START_S)
    return Running(home, process, start_once(worker), port)


def test_the_worker_shows_how_its_tasks_went_to_those_who_know_the_token(running: Running) -> None:
    done = 'weir_worker_tasks_total{state="success",task="controlplane.fleet.tasks.heartbeat"}'
    eventually(lambda: done in running.metrics(TOKEN)[1], running.worker.log_tail)
    assert running.metrics("another")[0] == 401
    assert running.metrics(TOKEN, "application/openmetrics-text")[1].endswith("# EOF\n")


def test_the_worker_observes_beats_and_survives_its_broker(running: Running) -> None:
    home, worker = running.home, running.worker
    expected = {"gateway": "down", "redis": "up", "telemetry": "down", "worker": "up"}
    eventually(lambda: states(home) == expected, lambda: (states(home), worker.log_tail()))
    running.redis.kill()
    eventually(lambda: states(home)["redis"] == "down")
    assert worker.alive
    eventually(lambda: "broker.lost" in log(worker))
    running.redis.start().wait_ready()
    eventually(lambda: states(home)["redis"] == "up")
    eventually(lambda: "broker.reconnected" in log(worker))
    with closing(sqlite3.connect(home / "weir.sqlite3")) as database:
        database.execute("DELETE FROM fleet_observation WHERE component = 'worker'")
        database.commit()
    eventually(lambda: "worker" in states(home), worker.log_tail)
    worker.stop()
    assert worker.exit_code == 0
    written = log(worker)
    assert (written.count("broker.lost"), written.count("broker.reconnected")) == (1, 1), written
    assert "Traceback" not in written, written
    assert "worker_cancel_long_running_tasks_on_connection_loss" not in written, written


def test_of_two_workers_one_sends_the_schedule_and_the_other_takes_over_when_it_is_killed(
    tmp_path: Path, own_redis: tuple[Redis, Managed], start: Start
) -> None:
    home = tmp_path / "workers"
    migrate_home(home)
    env = {"WEIR_HOME": str(home), "WEIR_REDIS_URL": own_redis[0].url}
    started = [start(Command(name, (*CELERY, "-B", "-n", f"{name}@here"), env=env)) for name in "ab"]
    workers = {worker.pid: worker for worker in started}

    def leading() -> int:
        """The worker whose beat holds the lease; 0 where none does."""
        with closing(sqlite3.connect(home / "weir.sqlite3", timeout=60)) as database:
            row = database.execute("SELECT holder FROM core_lease WHERE name = 'beat'").fetchone()
        beat = Path("/proc", row[0].rpartition(":")[2], "status") if row else None
        if beat is None or not beat.exists():
            return 0
        return int(next(line for line in beat.read_text().splitlines() if line.startswith("PPid")).split()[1])

    eventually(lambda: leading() in workers)
    killed = leading()
    workers[killed].kill()
    eventually(lambda: leading() in workers.keys() - {killed})
    with closing(sqlite3.connect(home / "weir.sqlite3")) as database:
        database.execute("DELETE FROM fleet_observation WHERE component = 'worker'")
        database.commit()
    eventually(lambda: "worker" in states(home))


def test_a_worker_whose_beat_was_killed_ends_to_be_started_again(
    tmp_path: Path, own_redis: tuple[Redis, Managed], start: Start
) -> None:
    home = tmp_path / "worker"
    migrate_home(home)
    worker = start(Command("worker", (*CELERY, "-B"), env={"WEIR_HOME": str(home), "WEIR_REDIS_URL": own_redis[0].url}))
    eventually(lambda: "beat.lease_taken" in log(worker), worker.log_tail)
    with closing(sqlite3.connect(home / "weir.sqlite3", timeout=60)) as database:
        (holder,) = database.execute("SELECT holder FROM core_lease WHERE name = 'beat'").fetchone()
    os.kill(int(holder.rpartition(":")[2]), signal.SIGKILL)
    eventually(lambda: not worker.alive, worker.log_tail, within_s=60)
    assert worker.exit_code == 0, "what it was sending was answered first"
    assert "beat.ended" in log(worker)
    assert "Traceback" not in log(worker)
