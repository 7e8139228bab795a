from collections.abc import Iterator

import pytest

from deploy.local.ports import LOOPBACK
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import Stack, a_fleet, start_stack
from tests.support.start import Start


@pytest.fixture(scope="package")
def model() -> Iterator[EchoServer]:
    server = EchoServer().start()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def stack(start_once: Start, model: EchoServer, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """A lane behind a gateway in front of `model`, for the tests of the lane. Leave it running, and choose texts of your own."""
    return start_stack(start_once, tmp_path_factory.mktemp("lane"), a_fleet(model.url), lane_callback_allow=LOOPBACK)
