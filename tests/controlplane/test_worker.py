"""The worker as it is really started: it observes, it beats, and it goes on observing while Redis is away."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from deploy.local.ports import free_port
from deploy.local.process import ROOT, Command, Managed
from deploy.local.redis import Redis
from tests.support.start import Start
from tests.support.wait import becomes


def states(home: Path) -> dict[str, str]:
    with closing(sqlite3.connect(home / "weir.sqlite3", timeout=10)) as database:
        return dict(database.execute("SELECT component, state FROM fleet_observation"))


def log(worker: Managed) -> str:
    return worker.log_tail(100_000)


def test_the_worker_observes_beats_and_survives_its_broker(
    home: Path, own_redis: tuple[Redis, Managed], start: Start
) -> None:
    redis, process = own_redis
    env = {
        "WEIR_HOME": str(home),
        "WEIR_REDIS_URL": redis.url,
        "WEIR_OBSERVE_EVERY_S": "1",
        "WEIR_OBSERVE_TIMEOUT_S": "1",
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env={**env}, check=True)
    celery = (sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker", "-B")
    worker = start(Command("worker", celery, env=env))
    expected = {"gateway": "down", "redis": "up", "telemetry": "down", "worker": "up"}
    assert becomes(lambda: states(home) == expected), (states(home), worker.log_tail())
    process.kill()
    assert becomes(lambda: states(home)["redis"] == "down")
    assert worker.alive
    assert becomes(lambda: "broker.lost" in log(worker))
    process.start().wait_ready()
    assert becomes(lambda: states(home)["redis"] == "up")
    assert becomes(lambda: "broker.reconnected" in log(worker))
    with closing(sqlite3.connect(home / "weir.sqlite3")) as database:
        database.execute("DELETE FROM fleet_observation WHERE component = 'worker'")
        database.commit()
    assert becomes(lambda: "worker" in states(home)), worker.log_tail()
    worker.stop()
    assert worker.exit_code == 0
    said = log(worker)
    assert (said.count("broker.lost"), said.count("broker.reconnected")) == (1, 1), said
    assert "Traceback" not in said, said


def test_of_two_workers_one_sends_the_schedule_and_the_other_takes_over_when_it_is_killed(
    home: Path, own_redis: tuple[Redis, Managed], start: Start
) -> None:
    env = {"WEIR_HOME": str(home), "WEIR_REDIS_URL": own_redis[0].url}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
    celery = (sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker", "-B", "-n")
    workers = {one.pid: one for one in [start(Command(name, (*celery, f"{name}@here"), env=env)) for name in "ab"]}

    def leading() -> int:
        """The worker whose beat holds the lease; 0 where none does."""
        with closing(sqlite3.connect(home / "weir.sqlite3", timeout=10)) as database:
            found = database.execute("SELECT holder FROM slo_lease WHERE name = 'beat'").fetchone()
        beat = Path("/proc", found[0].rpartition(":")[2], "status") if found else None
        if beat is None or not beat.exists():
            return 0
        return int(next(line for line in beat.read_text().splitlines() if line.startswith("PPid")).split()[1])

    assert becomes(lambda: leading() in workers)
    killed = leading()
    workers[killed].kill()
    assert becomes(lambda: leading() in workers.keys() - {killed})
    with closing(sqlite3.connect(home / "weir.sqlite3")) as database:
        database.execute("DELETE FROM fleet_observation WHERE component = 'worker'")
        database.commit()
    assert becomes(lambda: "worker" in states(home))


def test_the_worker_says_how_its_tasks_went_to_those_who_know_the_token(
    home: Path, own_redis: tuple[Redis, Managed], start: Start
) -> None:
    redis, _ = own_redis
    port = free_port()
    env = {
        "WEIR_HOME": str(home),
        "WEIR_REDIS_URL": redis.url,
        "WEIR_WORKER_METRICS": f"127.0.0.1:{port}",
        "WEIR_METRICS_TOKEN": "a-token-of-ours",
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
    start(Command("worker", (sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker", "-B"), env=env))

    def page(token: str, accept: str = "*/*") -> tuple[int, str]:
        asked = Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}", "Accept": accept}
        )
        try:
            with urlopen(asked, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    done = 'weir_worker_tasks_total{state="success",task="controlplane.fleet.tasks.heartbeat"}'
    assert becomes(lambda: done in page("a-token-of-ours")[1])
    assert page("another")[0] == 401
    assert page("a-token-of-ours", "application/openmetrics-text")[1].endswith("# EOF\n")
