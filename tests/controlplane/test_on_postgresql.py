"""Runs tests of accounts, fleet, incidents, objectives and set-up on PostgreSQL too."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.process import ROOT
from tests.support import need
from tests.support.soak import sized

FIRST = (
    "incidents/notify/delivery/test_outbox.py",
    "lane/store/test_claim_protocol.py",
    "incidents/decide/test_engine.py",
    "core/test_lease.py",
    "slo/test_save.py",
    "fleet/test_publish.py",
    "test_bootstrap.py",
)
"""Locks, constraints, upserts and set-up: where databases differ."""
MORE = (
    "accounts/test_api_tokens.py",
    "accounts/test_login.py",
    "fleet/test_admin.py",
    "fleet/test_seed.py",
    "fleet/observe/test_record.py",
    "incidents/notify/delivery/test_key_lock.py",
    "incidents/notify/delivery/test_sealed.py",
    "incidents/notify/delivery/test_sender.py",
    "incidents/notify/delivery/test_storm.py",
    "incidents/act/test_reopen.py",
    "incidents/act/test_silencing.py",
    "incidents/report/test_unnotified.py",
    "incidents/notify/test_changes.py",
    "lane/store/test_killed_between_effects.py",
    "slo/evaluate/test_states.py",
)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL of this session alone, on a socket in a folder of its own, without port and password."""
    tools = need.postgres("initdb").parent
    identity = _identity()
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    folder.chmod(0o700)
    if identity:
        shutil.chown(folder, identity["user"])
    data = folder / "data"
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    run = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL, **identity}
    subprocess.run([tools / "initdb", "-U", "weir", "-A", "trust", "-D", data], **run)
    try:
        subprocess.run([tools / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"], **run)
        yield f"postgresql://weir@{str(folder).replace('/', '%2F')}/postgres"
    finally:
        subprocess.run([tools / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"], **{**run, "check": False})
        shutil.rmtree(folder)


def _identity() -> dict[str, Any]:
    """The user that runs PostgreSQL where the tests run as root, which it refuses."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    return {"user": "postgres" if "postgres" in names else "nobody"}


def test_every_file_that_runs_there_exists() -> None:
    """Most of them run in `make test-soak` alone, which would find it late."""
    here = Path(__file__).parent
    assert [part for part in FIRST + MORE if not (here / part).is_file()] == []


def test_what_the_database_decides_passes_on_postgresql(server: str, tmp_path: Path) -> None:
    parts = FIRST + sized((), soak=MORE)
    command = [sys.executable, "-m", "pytest", "-q", *(f"tests/controlplane/{part}" for part in parts)]
    environment = {**os.environ, "WEIR_DATABASE_URL": server, "WEIR_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
