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

PATIENCE_S = 30.0

PROGRAM = """
import sys
from pathlib import Path
from deploy.local.errors import CannotRunError
from deploy.local.process import Command
from deploy.local.supervisor import Part, Supervisor

folder = Path(sys.argv[1])

def part(name, code, *needs, **more):
    marker = folder / name
    code = f"import pathlib, sys, time; marker = pathlib.Path({str(marker)!r}); started = {str(folder)!r} + '/started'\\n" + code
    once = more.get("once", False)
    return Part(Command(name, (sys.executable, "-c", code), lambda: marker.exists()), needs, once)

SERVE = "open(started, 'a').write(marker.name + '\\\\n'); time.sleep(float(%r)); marker.touch(); time.sleep(600)"
parts = eval(sys.argv[2])
try:
    Supervisor(parts, folder / "logs", lambda text: print(text, flush=True)).run(lambda: print("ALL READY", flush=True))
except CannotRunError as error:
    print(f"CANNOT: {error}", flush=True)
print("OVER", flush=True)
"""

Said = Callable[[str], str]


class Running:
    def __init__(self, folder: Path, parts: str) -> None:
        self.folder = folder
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                (sys.executable, "-c", PROGRAM, str(folder), parts), cwd=ROOT, stdout=output, stderr=output
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
            one for one in psutil.Process(self.process.pid).children() if f"/{name}'" in " ".join(one.cmdline())
        )

    def started(self) -> list[str]:
        return (self.folder / "started").read_text().split()


@contextmanager
def supervised(folder: Path, parts: str) -> Iterator[Running]:
    running = Running(folder, parts)
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.wait(PATIENCE_S)


def test_a_part_starts_when_what_it_needs_answers(tmp_path: Path) -> None:
    with supervised(tmp_path, "[part('second', SERVE % 0, 'first'), part('first', SERVE % 0.3)]") as running:
        said = running.said("ALL READY")
        assert said.index("first ready") < said.index("second ready")
        assert running.started() == ["first", "second"]


def test_a_task_of_the_set_up_is_done_when_it_has_ended_well(tmp_path: Path) -> None:
    with supervised(tmp_path, "[part('after', SERVE % 0, 'task'), part('task', 'pass', once=True)]") as running:
        assert "task done" in running.said("ALL READY")


def test_a_part_that_dies_is_started_again_and_that_is_said(tmp_path: Path) -> None:
    with supervised(tmp_path, "[part('server', SERVE % 0)]") as running:
        running.said("ALL READY")
        (tmp_path / "server").unlink()
        running.child("server").kill()
        assert "server was killed by SIGKILL: starting it again in 0.5 s" in running.said("server ready again")
        running.child("server").kill()
        running.said("starting it again in 1 s")  # longer each time


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
