from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.lane.objects.bucket import Bucket
from controlplane.lane.objects.folder import Folder
from controlplane.lane.objects.port import Objects, new_key
from deploy.local.ports import LOOPBACK
from tests.support.gateway.tls import issue
from tests.support.lane.callback_receiver import CallbackReceiver
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import Stack, a_fleet, start_stack
from tests.support.lane.s3 import BUCKET, s3
from tests.support.start import Start


@pytest.fixture(scope="package")
def in_s3() -> Iterator[None]:
    with s3():
        yield


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, home: Path) -> Objects:
    """A place of this test alone, of either kind."""
    if request.param == "folder":
        return Folder(home / "lane")
    request.getfixturevalue("in_s3")
    return Bucket(BUCKET, new_key())


@pytest.fixture(scope="package")
def model() -> Iterator[EchoServer]:
    with EchoServer() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[CallbackReceiver]:
    with CallbackReceiver() as server:
        yield server


@pytest.fixture(autouse=True)
def _answers_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails while it holds answers back fails alone."""
    yield
    if "model" in request.fixturenames:
        request.getfixturevalue("model").let_go()


@pytest.fixture(scope="package")
def stack(start_once: Start, model: EchoServer, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """A lane behind a gateway in front of `model`, for the tests of the lane, over TLS. Leave it running."""
    folder = tmp_path_factory.mktemp("lane")
    shown = issue(folder, "lane")
    return start_stack(start_once, folder, a_fleet(model.url), certificate=shown, lane_callback_allow=LOOPBACK)
