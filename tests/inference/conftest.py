from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.local.triton import Triton
from inference.snapshot import Snapshot
from tests.conftest import Start
from tests.inference.running import Gateway, Receiver, a_snapshot, gateway_command

StartGateway = Callable[..., Gateway]


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
def start_gateway(start: Start, tmp_path: Path) -> StartGateway:
    """Starts a gateway of this test's own: `start_gateway(snapshot, redis_url=…, otlp=…, keepalive_ms="50")`."""

    def begin(snapshot: Snapshot | None, **settings: Any) -> Gateway:
        command, port, path = gateway_command(tmp_path, snapshot, **settings)
        process = start(command)
        return Gateway(port, path, process, Path(str(process.log)))

    return begin
