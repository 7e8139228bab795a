"""The embedded store as a part that tests start, and as a process that a test may kill."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.telemetry.store import Store, access
from deploy.local.process import Command

UNASKED = Store("clickhouse://127.0.0.1:1/weir")
"""Nothing answers there: for what is refused before the store is asked."""

_ARGV = (sys.executable, "-m", "controlplane.telemetry.store", "--home")


def embedded_store(home: Path, port: int) -> tuple[Command, str]:
    """How to start it, and its DSN. Once it answers, `migrate(dsn)` makes sure of its tables."""
    dsn = access.dsn(home, port)
    return Command("store", (*_ARGV, str(home), "--port", str(port)), Store(dsn).ping, start_s=120), dsn


@contextmanager
def store_process(home: Path, *arguments: str, stderr: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """The store over `home`, as a process; killed at the end where it still runs."""
    with subprocess.Popen([*_ARGV, str(home), *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def dsn_of(process: "subprocess.Popen[str]") -> str:
    """The last line a starting store prints is its DSN."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("clickhouse://"):
            return line.strip()
    raise AssertionError(f"the store ended with {process.wait()} and printed no DSN")


def database_at(server: str, name: str) -> str:
    """The DSN of another database of the same server."""
    return f"{server.rpartition('/')[0]}/{name}"
