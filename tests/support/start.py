"""Starts commands for tests, and ends them again."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.process import Command, Managed

Start = Callable[[Command], Managed]
READY_S = 400.0
"""Nothing takes as long to start, nor to start again, however busy the machine is with other tests."""

STARTING_FIXTURES = {
    "start", "start_once", "front_dsn", "telemetry", "run", "guarded", "small", "browser", "control_plane", "triton_port",
}  # fmt: skip
STARTING_NAMES = (
    "subprocess",
    "multiprocessing",
    "Managed",
    "Popen",
    "Processes",
    "Tokenizers",
    "running",
    "store_process",
)


_TELLING_LINE = re.compile(
    rf"^(?:import|from \S+ import .*)\b(?:{'|'.join(STARTING_NAMES)})\b|^pytestmark = pytest\.mark\.processes$",
    re.MULTILINE,
)


_DATABASE_LINE = re.compile(r"^pytestmark = .*\bpytest\.mark\.django_db\b", re.MULTILINE)


def only_starts_processes(path: Path) -> bool:
    """Whether all tests of a file or folder start processes, as far as that can be seen without importing it."""
    if path.is_dir():
        return path.name == "browser"
    return path.name.startswith("test_") and bool(_TELLING_LINE.search(path.read_text()))


def only_uses_database(path: Path) -> bool:
    """Whether all tests of a file use the database, as far as that can be seen without importing it."""
    return path.name.startswith("test_") and path.is_file() and bool(_DATABASE_LINE.search(path.read_text()))


def starts_processes(item: pytest.Item) -> bool:
    """Whether a test starts processes: through a fixture, or in its own file, by what the file imports."""
    module = getattr(item, "module", None)
    return bool(STARTING_FIXTURES.intersection(getattr(item, "fixturenames", ()))) or any(
        hasattr(module, name) for name in STARTING_NAMES
    )


def starter(folder: Path) -> Iterator[Start]:
    """Gives a function that starts a command and waits until it is ready. All of them end afterwards. Logs go to `folder`."""
    running: list[Managed] = []

    def start(command: Command) -> Managed:
        patient = replace(command, start_s=max(command.start_s, READY_S))
        process = Managed(patient, folder / f"{command.name}-{len(running)}.log")
        running.append(process)
        return process.start().wait_ready()

    yield start
    for process in running:
        process.terminate()
    for process in reversed(running):
        process.stop()
