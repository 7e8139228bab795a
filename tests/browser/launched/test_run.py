"""`python -m deploy.local` as a newcomer has it: everything, for real; and in front of a model server, on the same home, after that. The
tests of this file share one run and go from top to bottom."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page

from deploy.local.process import ROOT
from tests.support import need
from tests.support.browser.drill import SETTINGS
from tests.support.browser.drill_says import told_and_shown
from tests.support.deploy.outage import as_owner
from tests.support.deploy.run import PATIENCE_S, START_S, Run
from tests.support.http_server import on_a_thread
from tests.support.incidents.pagerduty import PagerDuty
from tests.support.servers.standins import MODEL, SGLang
from tests.support.wait import eventually

SEEN_STAGES = ("gateway", "tokenizer", "cache", "queue", "model", "network")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    need.chromium()
    run = Run(tmp_path_factory.mktemp("weir") / "home", WEIR_OUTBOUND_ALLOW="127.0.0.1", **SETTINGS)
    try:
        run.start()
        yield run
    finally:
        run.end()


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
        assert f"in {run.home}/{secret}" in said


def test_secrets_are_neither_in_the_terminal_nor_in_a_log(run: Run) -> None:
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
    for log in (run.output, *(run.home / "logs").iterdir()):
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


def test_answers_of_similar_requests_are_compared_and_none_is_served(run: Run) -> None:
    def compared() -> bool:
        used = run.get("cache?from=now-15m&to=now")
        assert all(it["threshold"] is None for it in used["similar"])
        assert not any(it["requests"].get("semantic") for it in used["saved"])
        return any(it["labels"] for it in used["similar"])

    for greeting in ("", "Hi, ", "Hey, ", "Hello, "):
        run.ask(f"{greeting}What is the first word of an answer?")
    eventually(compared)


def test_an_override_starts_a_replica_that_ends_with_it(run: Run) -> None:
    pool = "chat-small-local"
    ends_at = datetime.now(UTC) + timedelta(hours=1)
    wish = {"pool": pool, "replicas": 3, "ends_at": ends_at.isoformat(), "reason": "a test"}

    def has(replicas: int) -> bool:
        return len(run.replicas(pool)) == replicas and run.is_steady(pool)

    with run.without_traffic():
        eventually(lambda: has(2), within_s=START_S)
        before = run.replicas(pool)
        override = run.post("overrides", wish)
        eventually(lambda: has(3), within_s=START_S)
        (added,) = run.replicas(pool) - before
        run.said(f"{added} ready")
        run.delete(f"overrides/{override['number']}")
        assert f"{added} ended, as it is not needed any more" in run.said(f"{added} ended", START_S)
        eventually(lambda: has(2))
        assert run.replicas(pool) == before


def test_that_the_gateway_is_gone_is_sent_and_shown_and_that_it_is_back(
    run: Run, page: Page, stand_in: PagerDuty
) -> None:
    """The other faults are those of test_drill.py."""
    as_owner(run, f"be_told({stand_in.url!r})")
    told_and_shown(page, run, stand_in, "gateway gone")


def test_a_second_launcher_on_the_same_home_is_refused(run: Run) -> None:
    done = launch_again(run)
    assert done.returncode == 1
    assert done.stderr.startswith(f"weir cannot run: weir already runs in {run.home} (process {run.launcher.pid})")
    assert done.stderr.count("\n") == 1


def test_taken_ports_are_named_with_the_variables_that_set_them(run: Run, tmp_path: Path) -> None:
    done = launch_again(run, WEIR_HOME=str(tmp_path / "other"))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.rpartition("or set ")[2] for line in lines] == [
        f"{variable} to a free port"
        for variable in ("WEIR_WEB_PORT", "WEIR_GATEWAY_PORT", "WEIR_OTLP_HTTP_PORT", "WEIR_OTLP_GRPC_PORT")
    ]
    assert f"port {run.web} is taken" in lines[0]


def test_parts_that_are_killed_come_back_and_that_is_said(run: Run) -> None:
    pool = "chat-large-local"
    with run.paused(pool):
        replica = min(run.replicas(pool))
        parts = {
            "redis": ("redis-server",),
            replica: ("tritonserver", f"service.instance.id={replica}"),
            "telemetry": ("-m controlplane.telemetry",),
            "gateway": ("-m inference",),
            "worker": ("-m celery",),
            "controller": ("-m controlplane.controller",),
            "lane": ("-m controlplane.lane",),
            "web": ("-m granian",),
        }
        for process in [run.process(*words) for words in parts.values()]:
            process.kill()
        for name in parts:
            said = run.said(f"{name} ready again", START_S)
            assert f"{name} was killed by SIGKILL: starting it again" in said


def test_requests_are_counted_again_after_all_that(run: Run) -> None:
    before = run.get("latency?from=now-15m&to=now")["newest_ns"]
    eventually(lambda: run.get("latency?from=now-15m&to=now")["newest_ns"] > before)


def test_parts_end_with_a_launcher_that_is_killed(run: Run) -> None:
    run.launcher.kill()
    run.launcher.wait()
    eventually(lambda: not run.processes())


@pytest.fixture(scope="module")
def server() -> Iterator[SGLang]:
    with on_a_thread(SGLang()) as standin:
        yield standin


def test_data_and_secrets_survive_a_restart_in_front_of_a_model_server(run: Run, server: SGLang) -> None:
    token = (run.home / "api-token").read_text()
    restarted_ns = time.time_ns()
    run.env["WEIR_BACKEND_URL"] = server.url
    run.start()
    assert (run.home / "api-token").read_text() == token
    rows = run.get("requests?from=now-1h&to=now&limit=100")["rows"]
    assert [row for row in rows if row["end_ns"] < restarted_ns]


def test_it_serves_the_models_of_the_server_and_nothing_else(run: Run, server: SGLang) -> None:
    said = run.said("weir is ready", START_S)
    key = (run.home / "gateway-key").read_text().strip()
    assert f"in front of {server.url}   {MODEL}" in said and "no demo models" in said
    assert key not in said, "a secret is shown at the first start alone"
    assert not [process for process in run.processes() if "tritonserver" in " ".join(process.cmdline())]
    assert not [process for process in run.processes() if "deploy.local.traffic" in process.cmdline()]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "What is a weir?"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{run.gateway}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"] == "".join(server.tokens)


def test_the_overview_shows_the_server_and_its_request(run: Run) -> None:
    def rows() -> dict[str, dict[str, str]]:
        return {row["component"]: row for row in run.get("stack")["rows"]}

    component, asked = f"{MODEL}-server/server-0", f"requests?from=now-15m&to=now&model={MODEL}"
    eventually(lambda: component in rows() and rows()[component]["state"] == "up")
    assert rows()[component]["detail"].startswith(f"SGLang 0.5.23, with {MODEL}")
    eventually(lambda: bool(run.get(asked)["rows"]))
    (row,) = run.get(asked)["rows"]
    assert (row["model"], row["pool"], row["replica"]) == (MODEL, f"{MODEL}-server", "server-0")


def test_an_interrupt_leaves_nothing_behind(run: Run) -> None:
    run.launcher.send_signal(signal.SIGINT)
    assert run.launcher.wait(PATIENCE_S) == 0
    assert run.nothing_left()
    assert "ended: nothing is left running" in run.said("ended")
