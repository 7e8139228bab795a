"""Real components for every test, started in the same way as the supervisor starts them, and stopped at the end."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from deploy.local.ports import free_port, free_ports
from deploy.local.process import ROOT, Managed
from deploy.local.redis import Redis, redis
from deploy.local.triton import Triton, triton
from tests.support.scheduling import BySystem, rank_of
from tests.support.start import Start, starter, starts_processes

# How fast examples are made or run is no part of a test: machines differ.
settings.register_profile("weir", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weir")

TIME_SCALE = "0.1"  # the session's models answer ten times as fast as the GPUs they take their timing from


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    if starts_processes(item):
        item.add_marker("processes")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BySystem:
    return BySystem(config, log)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Recorded fixtures and traces, which are not part of the repository."""
    folder = Path(os.environ.get("WEIR_SHARED_DIR", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: set WEIR_SHARED_DIR to the folder with the recorded fixtures and traces")
    return folder


@pytest.fixture(scope="session")
def start_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a command that lives as long as the session."""
    yield from starter(tmp_path_factory.mktemp("session"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a command that this test may kill; ended with the test."""
    yield from starter(tmp_path)


@pytest.fixture(scope="session")
def redis_url(start_once: Start, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The session's Redis. Other tests use it too: choose keys of your own."""
    server = redis(free_port(), tmp_path_factory.mktemp("redis"))
    start_once(server.command)
    return server.url


@pytest.fixture(scope="session")
def session_triton(start_once: Start) -> Triton:
    """The session's Triton with both chat models, fast. Do not kill it, nor load its models anew."""
    server = triton(_three_ports(), env={"WEIR_MODEL_TIME_SCALE": TIME_SCALE})
    start_once(server.command)
    return server


@pytest.fixture
def own_redis(start: Start, tmp_path: Path) -> tuple[Redis, Managed]:
    """A Redis that this test may kill."""
    server = redis(free_port(), tmp_path / "redis")
    return server, start(server.command)


@pytest.fixture
def own_triton(start: Start) -> tuple[Triton, Managed]:
    """A Triton that this test may kill, and whose models it may load anew (`deploy.local.triton.load`)."""
    server = triton(_three_ports(), env={"WEIR_MODEL_TIME_SCALE": TIME_SCALE})
    return server, start(server.command)


def _three_ports() -> tuple[int, int, int]:
    grpc, http, metrics = free_ports(3)
    return grpc, http, metrics
