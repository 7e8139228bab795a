"""A PostgreSQL of a test alone, on a socket in a folder of its own, without port and password."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import need


class PostgreSQL:
    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self.url = f"postgresql://weir@{str(folder).replace('/', '%2F')}/postgres"
        self._control = (need.postgres("pg_ctl"), "-D", folder / "data", "-w")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        self._start = ("-o", options, "-l", folder / "log", "start")
        self._run = {"cwd": folder, "stdout": subprocess.DEVNULL, **run}

    def start(self) -> None:
        subprocess.run([*self._control, *self._start], check=True, **self._run)

    def stop(self) -> None:
        """At once: what was not committed is lost."""
        subprocess.run([*self._control, "-m", "immediate", "stop"], check=False, **self._run)


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Until the block ends. Skips the test where no PostgreSQL is installed."""
    initdb, identity = need.postgres("initdb"), _identity()
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    folder.chmod(0o700)
    if identity:
        shutil.chown(folder, identity["user"])
    quiet = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL, **identity}
    subprocess.run([initdb, "-U", "weir", "-A", "trust", "-D", folder / "data"], **quiet)
    server = PostgreSQL(folder, identity)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _identity() -> dict[str, Any]:
    """The user that runs PostgreSQL where the tests run as root, which it refuses."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    return {"user": "postgres" if "postgres" in names else "nobody"}
