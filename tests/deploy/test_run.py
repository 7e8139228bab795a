"""`python -m deploy.local` as a newcomer has it: everything, for real. The tests of this file share one run and go from top to bottom."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.local.home import MARK, region_prefix
from deploy.local.ports import free_ports, is_free
from deploy.local.process import ROOT
from deploy.local.triton import SHARED_MEMORY

START_S = 400.0  # also on a machine that has other things to do
PATIENCE_S = 60.0
SEEN_STAGES = ("gateway", "tokenizer", "cache", "queue", "model", "network")


class Run:
    """One WEIR_HOME with its ports, and the launcher on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.output = home.with_suffix(".output")
        self.web, self.gateway, otlp_http, otlp_grpc = self.ports = free_ports(4)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WEIR_")},
            "WEIR_HOME": str(home),
            "WEIR_WEB_PORT": str(self.web),
            "WEIR_GATEWAY_PORT": str(self.gateway),
            "WEIR_OTLP_HTTP_PORT": str(otlp_http),
            "WEIR_OTLP_GRPC_PORT": str(otlp_grpc),
        }

    def start(self) -> None:
        with self.output.open("wb") as output:
            self.launcher = subprocess.Popen(
                (sys.executable, "-m", "deploy.local"), cwd=ROOT, env=self.env, stdout=output, stderr=output
            )
        self.said("weir is ready\n", START_S)

    def said(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """All of its output, once `text` is in it."""
        eventually(lambda: text in self.output.read_text() or self.launcher.poll() is not None, timeout_s)
        output = self.output.read_text()
        assert text in output, output
        return output

    def processes(self) -> list[psutil.Process]:
        """Whatever was started for this home and still runs, the launcher aside."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.home) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                pass
        return found

    def process(self, *words: str) -> psutil.Process:
        """The oldest one whose command has these words."""
        found = [one for one in self.processes() if all(word in " ".join(one.cmdline()) for word in words)]
        return min(found, key=psutil.Process.create_time)

    def get(self, path: str) -> Any:
        token = (self.home / "api-token").read_text().strip()
        connection = http.client.HTTPConnection("127.0.0.1", self.web, timeout=30)
        try:
            connection.request("GET", f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, body
            return json.loads(body)
        finally:
            connection.close()

    def nothing_left(self) -> bool:
        return (
            not self.processes()
            and not list(SHARED_MEMORY.glob(f"{region_prefix(self.home)}*"))
            and all(is_free(port) for port in self.ports)
        )


def eventually(holds: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("weir") / "home")
    try:
        run.start()
        yield run
    finally:
        if run.launcher.poll() is None:
            run.launcher.terminate()
            run.launcher.wait(PATIENCE_S)
        for process in run.processes():
            process.kill()


def launch_again(run: Run, **other: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "deploy.local"),
        cwd=ROOT,
        env={**run.env, **other},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_says_where_to_look_and_who_to_be(run: Run) -> None:
    said = run.said("weir is ready")
    for address in (f"http://localhost:{run.web}/", f"http://localhost:{run.gateway}/v1"):
        assert address in said
    for secret in ("admin-password", "api-token", "gateway-key"):
        assert (run.home / secret).stat().st_mode & 0o777 == 0o600
        assert secret in said
    assert (run.home / "admin-password").read_text().strip() in said


def test_secrets_are_in_no_log(run: Run) -> None:
    names = (
        "admin-password",
        "api-token",
        "gateway-key",
        "metrics-token",
        "redis-password",
        "secret-key",
        "store-password",
    )
    secrets = [(run.home / name).read_text().strip() for name in names]
    for log in (run.home / "logs").iterdir():
        text = log.read_text(errors="replace")
        assert not [name for name, secret in zip(names, secrets, strict=True) if secret in text], log


def test_generated_requests_are_split_into_stages(run: Run) -> None:
    def every_stage_has_time() -> bool:
        stages = run.get("latency?from=now-15m&to=now")["stages"]
        return all(name in stages and stages[name]["p99_ms"] for name in SEEN_STAGES)

    eventually(every_stage_has_time)
    latency = run.get("latency?from=now-15m&to=now")
    assert latency["requests"] > 0
    assert latency["unattributed_share"] <= 0.02


def test_every_row_closes(run: Run) -> None:
    eventually(lambda: len(run.get("requests?from=now-15m&to=now&limit=100")["rows"]) >= 10)
    rows = run.get("requests?from=now-15m&to=now&limit=100")["rows"]
    for row in rows:
        assert sum(row["stages"].values()) + row["unattributed_ns"] == row["e2e_ns"] == row["end_ns"] - row["start_ns"]


def test_repeated_questions_come_out_of_the_cache(run: Run) -> None:
    eventually(lambda: bool(run.get("requests?from=now-15m&to=now&limit=100&cache=hit")["rows"]))


def test_a_second_launcher_on_the_same_home_is_refused(run: Run) -> None:
    done = launch_again(run)
    assert done.returncode == 1
    assert done.stderr.startswith(f"weir cannot run: weir already runs in {run.home} (process {run.launcher.pid})")
    assert done.stderr.count("\n") == 1


def test_a_taken_port_is_named_with_the_variable_that_sets_it(run: Run, tmp_path: Path) -> None:
    done = launch_again(run, WEIR_HOME=str(tmp_path / "other"))
    assert done.returncode == 1
    assert f"port {run.web} is taken" in done.stderr
    assert "WEIR_WEB_PORT" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("redis", ("redis-server",)),
        ("triton-0", ("tritonserver", "service.instance.id=triton-0")),
        ("telemetry", ("-m controlplane.telemetry",)),
        ("gateway", ("-m inference",)),
        ("worker", ("-m celery",)),
        ("controller", ("-m controlplane.controller",)),
        ("web", ("-m granian",)),
    ],
)
def test_a_part_that_is_killed_comes_back_and_that_is_said(run: Run, name: str, words: tuple[str, ...]) -> None:
    run.process(*words).kill()
    said = run.said(f"{name} ready again", START_S)
    assert f"{name} was killed by SIGKILL: starting it again" in said


def test_requests_are_counted_again_after_all_that(run: Run) -> None:
    before = run.get("latency?from=now-15m&to=now")["newest_ns"]
    eventually(lambda: run.get("latency?from=now-15m&to=now")["newest_ns"] > before)


def test_parts_end_with_a_launcher_that_is_killed(run: Run) -> None:
    run.launcher.kill()
    run.launcher.wait()
    eventually(lambda: not run.processes())


def test_data_and_secrets_survive_a_restart(run: Run) -> None:
    token = (run.home / "api-token").read_text()
    restarted_ns = time.time_ns()
    run.start()
    assert (run.home / "api-token").read_text() == token
    rows = run.get("requests?from=now-1h&to=now&limit=100")["rows"]
    assert [row for row in rows if row["end_ns"] < restarted_ns]


def test_an_interrupt_leaves_nothing_behind(run: Run) -> None:
    run.launcher.send_signal(signal.SIGINT)
    assert run.launcher.wait(PATIENCE_S) == 0
    assert run.nothing_left()
    assert "ended: nothing is left running" in run.said("ended")
