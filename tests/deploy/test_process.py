import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.local.ports import free_port, is_free
from deploy.local.process import ROOT, Command, Managed, NotReadyError, http_ok

PATIENCE_S = 120.0


def python(name: str, code: str, **more: object) -> Command:
    return Command(name, (sys.executable, "-c", code), **more)  # type: ignore[arg-type]


def web_server(port: int) -> Command:
    argv = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    return Command("web", argv, lambda: http_ok(port, "/"))


def gone(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(PATIENCE_S)
    except psutil.NoSuchProcess:
        pass
    except psutil.TimeoutExpired:
        return False
    return True


def test_ready_means_that_it_answers(tmp_path: Path) -> None:
    port = free_port()
    server = Managed(web_server(port), tmp_path / "log").start().wait_ready()
    assert http_ok(port, "/")
    server.stop()
    assert is_free(port)


def test_one_that_ends_instead_of_answering_is_reported_with_its_last_words(tmp_path: Path) -> None:
    command = python("broken", "raise SystemExit('no such luck')", ready=lambda: False)
    with pytest.raises(NotReadyError, match=r"(?s)broken ended with 1.*no such luck"):
        Managed(command, tmp_path / "log").start().wait_ready()


def test_one_that_never_answers_is_ended(tmp_path: Path) -> None:
    silent = Managed(python("silent", "import time; time.sleep(600)", ready=lambda: False), tmp_path / "log")
    with pytest.raises(NotReadyError, match="did not answer within"):
        silent.start().wait_ready(timeout_s=0.2)
    assert not silent.alive


def test_one_that_ignores_the_request_to_end_is_made_to(tmp_path: Path) -> None:
    ready = tmp_path / "deaf"
    code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(ready)!r}, 'w'); time.sleep(600)"
    deaf = Managed(python("deaf", code, ready=ready.exists), tmp_path / "log").start().wait_ready()
    deaf.stop(grace_s=0.1)
    assert deaf.exit_code == -signal.SIGKILL


def test_killing_it_takes_its_children_along(tmp_path: Path) -> None:
    note = tmp_path / "child"
    code = (
        "import pathlib, subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    parent = Managed(python("parent", code, ready=lambda: note.exists() and bool(note.read_text())), tmp_path / "log")
    parent.start().wait_ready().kill()
    assert gone(int(note.read_text()))


def test_it_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "child"
    code = (
        "import pathlib, sys, time\n"
        "from deploy.local.process import Command, Managed\n"
        "child = Managed(Command('child', (sys.executable, '-c', 'import time; time.sleep(600)')), pathlib.Path('/dev/null')).start()\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    starter = Managed(python("starter", code, ready=lambda: note.exists() and bool(note.read_text())), tmp_path / "log")
    starter.start().wait_ready()
    os.kill(starter.pid, signal.SIGKILL)  # it alone: its group would include nobody else anyway
    assert gone(int(note.read_text()))
    starter.stop()


def test_what_it_may_have_left_behind_is_removed_however_it_ends(tmp_path: Path) -> None:
    cleaned: list[str] = []
    process = Managed(
        python("x", "import time; time.sleep(600)", clean_up=lambda: cleaned.append("x")), tmp_path / "log"
    )
    process.start().kill()
    assert cleaned == ["x"]


def test_preflight_names_the_remedy_on_an_old_python() -> None:
    code = (
        "import sys; sys.version_info = (3, 9, 0); import platform; platform.python_version = lambda: '3.9.0';"
        "import runpy; runpy.run_path('deploy/local/preflight.py', run_name='__main__')"
    )
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "3.11" in done.stderr
    assert "make PYTHON=" in done.stderr


INTERRUPTED = """
import importlib.abc, os, signal, sys

class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started the tests in the background
sys.meta_path.insert(0, Interrupts())
"""


@pytest.mark.parametrize(
    ("arguments", "at"),
    [(("-m", "deploy.local"), "deploy.local.supervisor"), (("manage.py", "check"), "django.db.models")],
)
def test_an_interrupt_while_it_starts_leaves_no_traceback(tmp_path: Path, arguments: tuple[str, ...], at: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED.format(at=at))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "WEIR_HOME": str(tmp_path / "home")}
    ended = subprocess.run((sys.executable, *arguments), cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert ended.stdout + ended.stderr == ""
