"""The supervisor over small real processes. It wants the main thread and its signals, so each runs in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from deploy.local.process import ROOT

PATIENCE_S = 120.0

PROGRAM = '''
import sys
from functools import partial
from pathlib import Path
from deploy.local.errors import CannotRunError
from deploy.local.ports import free_port
from deploy.local.process import Command, http_ok, http_status
from deploy.local.supervisor import Part, Supervisor
from deploy.local.watch import Patience

folder = Path(sys.argv[1])

def part(name, code, *needs, **more):
    marker = folder / name
    code = f"import pathlib, sys, time; marker = pathlib.Path({str(marker)!r}); started = {str(folder)!r} + '/started'\\n" + code
    once = more.get("once", False)
    return Part(Command(name, (sys.executable, "-c", code), lambda: marker.exists(), answers=more.get("answers")), needs, once)

def web(name, status=200):
    """Answers /readyz with 200 and everything else with `status`, and records each of the other requests."""
    port = free_port()
    argv = (sys.executable, "-c", WEB, str(folder / name), str(port), str(status))
    probe = partial(http_status, port, "/healthz", timeout_s=600)  # so that the probe lasts longer than the test
    return Part(Command(name, argv, partial(http_ok, port, "/readyz"), answers=probe))

WEB = """
import http.server, pathlib, subprocess, sys
probed = pathlib.Path(sys.argv[1] + ".probed")
child = subprocess.Popen((sys.executable, "-c", "import time; time.sleep(600)"))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/readyz":
            probed.open("a").write("x")
        self.send_response(200 if self.path == "/readyz" else int(sys.argv[3]))
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""

SERVE = "open(started, 'a').write(marker.name + '\\\\n'); time.sleep(float(%r)); marker.touch(); time.sleep(600)"
parts = eval(sys.argv[2])
try:
    patience = Patience(probe_every_s=0.1, silent_s=2.0, jump_s=float(sys.argv[3]))
    supervisor = Supervisor(parts, folder / "logs", lambda text: print(text, flush=True), patience)
    supervisor.run(lambda: print("ALL READY", flush=True))
except CannotRunError as error:
    print(f"CANNOT: {error}", flush=True)
print("OVER", flush=True)
'''

Said = Callable[[str], str]


class Running:
    def __init__(self, folder: Path, parts: str, jump_s: float) -> None:
        self.folder = folder
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                (sys.executable, "-c", PROGRAM, str(folder), parts, str(jump_s)), cwd=ROOT, stdout=output, stderr=output
            )

    def said(self, text: str, times: int = 1) -> str:
        """Everything that it said, once `text` is in it so many times."""
        deadline = time.monotonic() + PATIENCE_S
        while (so_far := self.output.read_text()).count(text) < times:
            assert time.monotonic() < deadline, so_far
            time.sleep(0.02)
        return so_far

    def child(self, name: str) -> psutil.Process:
        return next(
            one
            for one in psutil.Process(self.process.pid).children()
            if f"/{name}'" in (words := " ".join(one.cmdline())) or f"/{name} " in words
        )

    def probed(self, name: str, times: int) -> None:
        """Return once the part has been probed so many times more."""
        file = self.folder / f"{name}.probed"
        size = file.stat().st_size if file.exists() else 0
        deadline = time.monotonic() + PATIENCE_S
        while not file.exists() or file.stat().st_size < size + times:
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.02)

    def started(self) -> list[str]:
        return (self.folder / "started").read_text().split()


@contextmanager
def supervised(folder: Path, parts: str, jump_s: float = 30.0) -> Iterator[Running]:
    running = Running(folder, parts, jump_s)
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.wait(PATIENCE_S)


def test_a_part_starts_when_what_it_needs_answers_and_a_task_has_ended_well(tmp_path: Path) -> None:
    parts = "[part('second', SERVE % 0, 'first'), part('first', SERVE % 0.3, 'task'), part('task', 'pass', once=True)]"
    with supervised(tmp_path, parts) as running:
        said = running.said("ALL READY")
        assert said.index("task done") < said.index("first ready") < said.index("second ready")
        assert running.started() == ["first", "second"]


def test_a_part_that_dies_is_started_again_and_that_is_said(tmp_path: Path) -> None:
    with supervised(tmp_path, "[part('server', SERVE % 0)]") as running:
        running.said("ALL READY")
        (tmp_path / "server").unlink()
        running.child("server").kill()
        assert "server was killed by SIGKILL: starting it again in 0.5 s" in running.said("server ready again")
        running.child("server").kill()
        running.said("starting it again in 1 s")  # longer each time


def test_a_set_up_that_says_what_is_missing_ends_everything_with_that_alone(tmp_path: Path) -> None:
    with supervised(
        tmp_path, "[part('task', 'print(1); print(\"move it\"); raise SystemExit(78)', once=True)]"
    ) as running:
        assert "CANNOT: move it" in running.said("OVER")


def test_a_part_that_never_starts_ends_everything_with_its_last_words(tmp_path: Path) -> None:
    parts = "[part('good', SERVE % 0), part('bad', 'raise SystemExit(\"the disk is full\")')]"
    with supervised(tmp_path, parts) as running:
        said = running.said("OVER")
        assert "CANNOT: bad ended with status 1 instead of starting" in said
        assert "the disk is full" in said
        assert said.count("bad ended with status 1: starting it again") == 2
        assert not psutil.Process(running.process.pid).children()


def test_a_failing_task_is_not_tried_again(tmp_path: Path) -> None:
    with supervised(tmp_path, "[part('task', 'raise SystemExit(3)', once=True)]") as running:
        assert "starting it again" not in running.said("OVER")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_of_it(tmp_path: Path, number: signal.Signals) -> None:
    with supervised(tmp_path, "[part('one', SERVE % 0), part('two', SERVE % 0, 'one')]") as running:
        running.said("ALL READY")
        children = psutil.Process(running.process.pid).children(recursive=True)
        assert len(children) == 2
        os.kill(running.process.pid, number)
        assert running.process.wait(PATIENCE_S) == 0
        assert not [child for child in children if child.is_running()]


def test_errors_in_a_log_are_shown_and_the_rest_is_not(tmp_path: Path) -> None:
    code = (
        "print('all is well'); print('2026-01-01 [error    ] disk.full', flush=True); marker.touch(); time.sleep(600)"
    )
    with supervised(tmp_path, f"[part('server', {code!r})]") as running:
        running.said("ALL READY")
        assert "all is well" not in running.said("server: 2026-01-01 [error    ] disk.full")
        assert "all is well" in (tmp_path / "logs" / "server.log").read_text()


def test_a_part_that_hangs_is_ended_with_its_children_and_started_again(tmp_path: Path) -> None:
    with supervised(tmp_path, "[web('server')]") as running:
        running.said("ALL READY")
        server = running.child("server")
        group = [server, *server.children()]
        assert len(group) == 2
        os.killpg(server.pid, signal.SIGSTOP)
        said = running.said("server ready again")
        assert "server has not answered for 2 s: ending it and starting it again" in said
        assert "server was killed by SIGKILL: starting it again in 0.5 s" in said
        assert psutil.wait_procs(group, PATIENCE_S)[1] == []
        running.probed("server", 3)  # the new one is probed, and answers


def test_a_part_that_refuses_connections_is_ended_and_started_again(tmp_path: Path) -> None:
    nobody = "partial(http_status, free_port(), '/healthz')"
    with supervised(tmp_path, f"[part('deaf', SERVE % 0, answers={nobody})]") as running:
        assert "deaf has not answered for 2 s: ending it and starting it again" in running.said("deaf ready again")


def test_a_part_that_answers_that_it_is_not_well_is_left_alone_and_so_is_one_without_a_probe(tmp_path: Path) -> None:
    with supervised(tmp_path, "[web('ill', 503), part('quiet', SERVE % 0), web('well')]") as running:
        running.said("ALL READY")
        quiet = running.child("quiet").pid
        for group in (quiet, running.child("well").pid):
            os.killpg(group, signal.SIGSTOP)
        running.said("well ready again")  # so it has been long enough
        running.probed("ill", 3)
        said = running.output.read_text()
        assert "ill has not answered" not in said and "quiet has not answered" not in said
        os.killpg(quiet, signal.SIGCONT)  # else its end takes the whole grace period


def test_a_part_that_hangs_delays_the_care_for_no_other(tmp_path: Path) -> None:
    with supervised(tmp_path, "[web('stopped'), part('server', SERVE % 0)]") as running:
        running.said("ALL READY")
        os.killpg(running.child("stopped").pid, signal.SIGSTOP)
        running.child("server").kill()
        said = running.said("stopped has not answered")
        assert "server ready again" in said


def test_a_part_that_hangs_at_its_start_delays_no_other(tmp_path: Path) -> None:
    """Its question takes as long as the patience of this test, so the other one would never start beside it."""
    slow = "Part(Command('slow', (sys.executable, '-c', 'import time; time.sleep(600)'), lambda: __import__('time').sleep(600)))"
    with supervised(tmp_path, f"[{slow}, part('server', SERVE % 0)]") as running:
        running.said("server ready")


def test_what_is_not_answered_while_the_machine_stands_still_does_not_count(tmp_path: Path) -> None:
    with supervised(tmp_path, "[web('server')]", jump_s=1.0) as running:
        running.said("ALL READY")
        running.probed("server", 1)
        server = running.child("server")
        os.killpg(server.pid, signal.SIGSTOP)
        time.sleep(0.5)  # a question is in the air
        os.kill(running.process.pid, signal.SIGSTOP)
        time.sleep(3.0)  # the standstill, longer than the silence that counts
        os.kill(running.process.pid, signal.SIGCONT)
        os.killpg(server.pid, signal.SIGCONT)
        running.probed("server", 3)
        assert "has not answered" not in running.output.read_text()
