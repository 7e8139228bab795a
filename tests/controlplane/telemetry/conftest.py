"""A running telemetry process with its embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.telemetry.process import Run, Running, running


@pytest.fixture(scope="package")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process for all tests of this folder. Tests may send anything to it, and must not kill it."""
    with running(tmp_path_factory.mktemp("telemetry")) as telemetry:
        yield telemetry


@pytest.fixture(scope="package")
def restarted(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Running]:
    """A process for all tests of this folder, with Redis. A test may stop or kill it, and must start it again."""
    home = tmp_path_factory.mktemp("restarted")
    with running(home, redis_url=redis_url, spool_segment_bytes=4096) as telemetry:
        yield telemetry


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process that wants the token "secret", may hold 2 MiB of bodies, and never reaches a store."""
    telemetry = Running(
        tmp_path_factory.mktemp("guarded"), otlp_token="secret", otlp_host="0.0.0.0", otlp_inflight_bytes=2 * 2**20,
        store_dsn="clickhouse://weir:x@127.0.0.1:1/weir",
    ).start()  # fmt: skip
    yield telemetry
    telemetry.stop()


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process that wants the token "secret", never reaches a store and soon has no room for more. A test sends until it is full."""
    telemetry = Running(
        tmp_path_factory.mktemp("small"), otlp_token="secret", spool_max_bytes=2**20, store_dsn="clickhouse://weir:x@127.0.0.1:1/weir",
    ).start()  # fmt: skip
    yield telemetry
    telemetry.stop()


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
