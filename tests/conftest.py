"""Real components for every test, started in the same way as the supervisor starts them, and stopped at the end."""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr
from hypothesis import HealthCheck, settings

from deploy.local.ports import confine, free_port, free_ports
from deploy.local.process import ROOT, Managed
from deploy.local.redis import Redis, redis
from deploy.local.triton import Triton, triton
from tests.support.scheduling import BySystem, is_of_kubernetes, rank_of, step_aside
from tests.support.soak import SOAKING, sized
from tests.support.stacks import stacks_of_tasks
from tests.support.start import Start, only_starts_processes, only_uses_database, starter, starts_processes

if TYPE_CHECKING:  # each fixture imports what it starts: most runs need no Kubernetes
    from tests.support.cluster.control_plane import ControlPlane
    from tests.support.cluster.namespace import Namespace
    from tests.support.cluster.proxy import Proxy

# How fast examples are made or run is no part of a test: machines differ. Each run makes the same examples, so that what passes passes
# again; `make test-soak` makes others each time.
settings.register_profile(
    "weir",
    max_examples=sized(50, soak=500),
    deadline=None,
    derandomize=not SOAKING,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("weir")

APART = {
    "servers": "needs a real model server: make test-servers",
    "cluster": "needs a Kubernetes control plane: make test-cluster",
    "soak": "takes long: make test-soak",
}
"""Tests that run only where their marker is chosen, and why."""

DATABASE = {"db", "transactional_db", "django_db_setup"}
"""Fixtures of whoever uses the database."""

PLANE = pytest.StashKey["ControlPlane"]()
"""The Kubernetes that runs."""
TIME_SCALE = "0.1"  # the session's models answer ten times as fast as the GPUs they take their timing from


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    confine(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    step_aside(worker["workerid"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What tests import and are stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Python need not look through all that again at each collection of garbage, which took a third of the time of short tests."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test-fast` does not import what it leaves out."""
    left_out = config.option.markexpr.removeprefix("not ").split(" and not ")
    return (
        ("processes" in left_out and only_starts_processes(collection_path))
        or ("database" in left_out and only_uses_database(collection_path))
        or None
    )


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    if starts_processes(item):
        item.add_marker("processes")
    if item.get_closest_marker("django_db") or not DATABASE.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker("database")
    if "cluster" in getattr(item, "fixturenames", ()) or "control_plane" in getattr(item, "fixturenames", ()):
        item.add_marker("cluster")
    makes_examples = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if makes_examples or getattr(getattr(item, "module", None), "sized", None) is sized:
        item.add_marker("sized")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # They take minutes, or a gigabyte, installed or not.
    for marker, reason in APART.items():
        if marker not in config.option.markexpr:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    timed_out = call.excinfo is not None and str(call.excinfo.value).startswith("Timeout")
    if timed_out and isinstance(report.longrepr, ExceptionRepr):
        report.longrepr.addsection("tasks under way", stacks_of_tasks())
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if PLANE in item.config.stash and nextitem and not is_of_kubernetes(nextitem.nodeid):
        item.config.stash[PLANE].stop()  # an idle one takes a twentieth of a processor
        del item.config.stash[PLANE]


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
    """A Triton that this test may kill, and whose models it may load anew (`tests.support.servers.triton.load`)."""
    server = triton(_three_ports(), env={"WEIR_MODEL_TIME_SCALE": TIME_SCALE})
    return server, start(server.command)


@pytest.fixture(scope="session")
def control_plane(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> "Iterator[ControlPlane | None]":
    """The session's Kubernetes; None where KUBECONFIG names one that goes on. Do not end its parts: that is done after its last test."""
    from tests.support.cluster.binaries import binaries
    from tests.support.cluster.control_plane import control_plane as started

    if "KUBECONFIG" in os.environ:
        yield None
    else:
        for plane in started(tmp_path_factory.mktemp("kubernetes"), binaries(), nodes=2):
            pytestconfig.stash[PLANE] = plane
            yield plane


@pytest.fixture
def cluster(control_plane: "ControlPlane | None") -> "Iterator[Namespace]":
    """A namespace of the session's Kubernetes."""
    from tests.support.cluster.namespace import namespace

    kubeconfig = control_plane.kubeconfig if control_plane else Path(os.environ["KUBECONFIG"])
    yield from namespace(kubeconfig, control_plane)


@pytest.fixture
def hollow(cluster: "Namespace") -> "Namespace":
    """The same, where nodes are hollow and have GPUs, so that pods run whatever their image."""
    if cluster.plane is None:
        pytest.skip("needs hollow nodes with GPUs: unset KUBECONFIG")
    return cluster


@pytest.fixture
def proxy(hollow: "Namespace") -> "Iterator[Proxy]":
    """The way to the session's API server, with faults."""
    from tests.support.cluster.proxy import Proxy

    assert hollow.plane
    made = Proxy(hollow.plane)
    yield made
    made.close()


def _three_ports() -> tuple[int, int, int]:
    grpc, http, metrics = free_ports(3)
    return grpc, http, metrics
