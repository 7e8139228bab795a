"""A running telemetry process with its embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.telemetry.process import Run, Running, running


@pytest.fixture(scope="session")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process for the whole session. Tests may send anything to it, and must not kill it."""
    with running(tmp_path_factory.mktemp("telemetry")) as telemetry:
        yield telemetry


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a process for one test only. Settings are given without `WEIR_`, in lower case."""
    started: list[Running] = []

    def start(**settings: object) -> Running:
        running = Running(tmp_path / f"home-{len(started)}", **settings)
        started.append(running)
        return running.start()

    yield start
    for telemetry in started:
        telemetry.stop()
