import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.local.ports import free_ports
from deploy.local.triton import Triton, triton
from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import (
    USER_HASH_KEY,
    Gateway,
    Receiver,
    Serve,
    StartGateway,
    Tune,
    a_snapshot,
    gateway_command,
    serves,
    small_only,
)
from tests.support.gateway.triton_double import StartDouble, TritonDouble
from tests.support.servers.calls import StartServer
from tests.support.servers.standins import ALL_KINDS, ModelServer
from tests.support.servers.triton import load
from tests.support.start import Start
from tests.support.wait import eventually

_versions = itertools.count(1000, 1000)  # of `serve`: far from those that tests choose


@pytest.fixture(scope="session")
async def receiver() -> AsyncIterator[Receiver]:
    """Takes the session gateway's spans."""
    here = await Receiver().start()
    yield here
    await here.stop()


@pytest.fixture(scope="session")
def snapshot(session_triton: Triton) -> Snapshot:
    return a_snapshot(session_triton.grpc)


@pytest.fixture(scope="session")
def gateway(
    start_once: Start,
    snapshot: Snapshot,
    redis_url: str,
    receiver: Receiver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Gateway:
    """The session's gateway on the session's Redis and Triton. Leave its snapshot alone."""
    folder = tmp_path_factory.mktemp("gateway")
    command, port, path = gateway_command(folder, snapshot, redis_url=redis_url, otlp=receiver.url)
    process = start_once(command)
    return Gateway(port, path, process, Path(str(process.log)))


@pytest.fixture
def start_gateway(start: Start, tmp_path: Path) -> Iterator[StartGateway]:
    """Starts a gateway of this test's own: `start_gateway(snapshot, redis_url=…, otlp=…, keepalive_ms="50")`.

    At the test's end it does not drain, which would take two seconds while clients keep connections.
    """
    running: list[Gateway] = []

    def begin(snapshot: Snapshot | None, **settings: Any) -> Gateway:
        command, port, path = gateway_command(tmp_path, snapshot, **settings)
        process = start(command)
        running.append(Gateway(port, path, process, Path(str(process.log))))
        return running[-1]

    yield begin
    for gateway in running:
        gateway.end_at_once()


@pytest.fixture(scope="session")
def plain_gateway(start_once: Start, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    """A gateway without a cache, for `serve`."""
    command, port, path = gateway_command(tmp_path_factory.mktemp("gateway"), None, otlp=receiver.url)
    process = start_once(command)
    return Gateway(port, path, process, Path(str(process.log)))


@pytest.fixture(scope="session")
def cached_gateway(
    start_once: Start, redis_url: str, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """A gateway on the session's Redis, for `serve_cached`."""
    settings = {"redis_url": redis_url, "otlp": receiver.url, "user_hash_key": USER_HASH_KEY}
    command, port, path = gateway_command(tmp_path_factory.mktemp("gateway"), None, **settings)
    process = start_once(command)
    return Gateway(port, path, process, Path(str(process.log)))


def _serves(gateway: Gateway) -> Serve:
    def begin(snapshot: Snapshot) -> Gateway:
        eventually(gateway.idle)
        gateway.obey(msgspec.structs.replace(snapshot, version=next(_versions)))
        eventually(lambda: serves(gateway.port))
        return gateway

    return begin


@pytest.fixture
def serve_cached(cached_gateway: Gateway) -> Serve:
    """As `serve`, with a cache, and with a key for the hashes of users and texts (`USER_HASH_KEY`)."""
    return _serves(cached_gateway)


@pytest.fixture
def serve(plain_gateway: Gateway) -> Serve:
    """`serve(snapshot)` gives the session's plain gateway, which obeys this snapshot and has a replica that is up.

    `receiver` gets its spans. For tests that need no settings of their own, and look at no counters and at no log: other tests use
    it too.
    """
    return _serves(plain_gateway)


@pytest.fixture(scope="session")
def tunable_triton(start_once: Start) -> Triton:
    """A Triton whose models each test loads anew with `tune`."""
    grpc, http, metrics = free_ports(3)
    server = triton((grpc, http, metrics), env={"WEIR_MODEL_TIME_SCALE": "0.1"})
    start_once(server.command)
    return server


@pytest.fixture
def tune(tunable_triton: Triton) -> Tune:
    """`tune(time_scale="20")` loads the small model with this parameter, and returns the Triton."""

    def begin(**parameters: str) -> Triton:
        load(tunable_triton, "chat_small", **{"fail_after_tokens": "-1", "time_scale": "0.1", **parameters})
        return tunable_triton

    return begin


@pytest.fixture(scope="session")
def slow_triton(start_once: Start) -> Triton:
    """A slow Triton with the small model alone, which computes at most sixteen sequences at once (in two instances)."""
    grpc, http, metrics = free_ports(3)
    server = triton((grpc, http, metrics), models=("chat_small",))
    start_once(server.command)
    load(server, "chat_small", time_scale="30", max_sequences="8")
    return server


@pytest.fixture(scope="session")
def slow_gateway(start_once: Start, slow_triton: Triton, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    """On the slow Triton, without a cache. A test that gives it another snapshot restores this one."""
    command, port, path = gateway_command(tmp_path_factory.mktemp("gateway"), small_only(slow_triton))
    process = start_once(command)
    return Gateway(port, path, process, Path(str(process.log)))


@pytest.fixture
async def start_double() -> AsyncIterator[StartDouble]:
    """`await start_double(max_calls=2)`."""
    running: list[TritonDouble] = []

    async def begin(max_calls: int = 0) -> TritonDouble:
        double = await TritonDouble().start(max_calls)
        running.append(double)
        return double

    yield begin
    for double in running:
        await double.stop()


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """`await start_server("sglang")`, or the class of one."""
    running: list[ModelServer] = []

    async def begin(kind: str | type[ModelServer]) -> ModelServer:
        running.append(await (ALL_KINDS[kind] if isinstance(kind, str) else kind)().start())
        return running[-1]

    yield begin
    for server in running:
        await server.stop()
