"""Commands whose database does not answer end with a line that says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.process import ROOT


def run(home: Path, url: str, *arguments: str) -> str:
    """What a command that fails has to say."""
    environment = {**os.environ, "WEIR_HOME": str(home), "WEIR_DATABASE_URL": url, "WEIR_LOG_LEVEL": "error"}
    ended = subprocess.run(
        (sys.executable, "manage.py", *arguments),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert "hunter2" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("command", ["migrate", "bootstrap"])
def test_a_database_that_cannot_be_reached_is_named_with_host_and_port(command: str, tmp_path: Path) -> None:
    port = free_port()
    line = run(tmp_path, f"postgresql://weir:hunter2@{LOOPBACK}:{port}/slo", command)
    assert line.startswith(f"manage.py: the database slo at {LOOPBACK}:{port} cannot be reached (")
    assert line.count("\n") == 1 and line.endswith(": start it, or correct WEIR_DATABASE_URL\n"), line


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "weir.sqlite3"
    line = run(tmp_path, f"sqlite:///{path}", "migrate")
    assert line.startswith(f"manage.py: the database file {path} cannot be used (") and line.count("\n") == 1, line


def test_who_forgot_to_migrate_hears_it(tmp_path: Path) -> None:
    line = run(tmp_path, "", "bootstrap")
    assert line.endswith(": run `manage.py migrate` first\n") and line.count("\n") == 1, line


def test_a_traceback_is_given_to_whoever_wants_it(tmp_path: Path) -> None:
    said = run(tmp_path, f"sqlite:///{tmp_path}/none/weir.sqlite3", "migrate", "--traceback")
    assert said.startswith("Traceback") and "unable to open database file" in said
