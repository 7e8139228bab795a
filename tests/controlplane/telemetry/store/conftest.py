"""A real embedded store in a process of its own, as the product runs it, and an empty database in it for each test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from controlplane.telemetry.store import Store, migrate

_numbers = count(1)


@pytest.fixture(scope="session")
def front_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of a running `python -m controlplane.telemetry.store`."""
    home = tmp_path_factory.mktemp("store-home")
    with start(home) as process:
        yield dsn_of(process)


@pytest.fixture
def dsn(front_dsn: str) -> str:
    """The DSN of an empty, migrated database."""
    fresh = f"{front_dsn.rpartition('/')[0]}/test_{os.getpid()}_{next(_numbers)}"
    migrate(fresh, retention_days=3650)
    return fresh


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    opened = Store(dsn)
    yield opened
    opened.close()


@contextmanager
def start(home: Path, *arguments: str, stderr: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """The store over `home`, as a process; killed at the end where it still runs."""
    command = [sys.executable, "-m", "controlplane.telemetry.store", "--home", str(home), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
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
