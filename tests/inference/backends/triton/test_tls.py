"""TLS and credentials of a pool on Triton: for descriptions, probes and requests alike."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inference.backends.credentials import Credentials
from inference.backends.triton import TritonConnector
from inference.backends.triton.model import TritonModel
from inference.contract.snapshot import Endpoint, Pool, Tls
from inference.core.backend_errors import BackendError, FailedError
from tests.support.certificates import certificate
from tests.support.gateway.triton_double import TritonDouble
from tests.support.servers.triton_calls import Served, read

NAME = "triton.example"


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[TritonDouble]:
    proof = certificate(NAME)
    proof.write(tmp_path)
    (tmp_path / "proxy").write_text("s3cret")
    double = await TritonDouble().start(proof=proof)
    yield double
    await double.stop()


def served(folder: Path, address: str, **pool: object) -> Served:
    connector = TritonConnector(Credentials(folder, {}))
    endpoint = Endpoint("r0", grpc=address)
    given = Pool("p", "v", "r", "chat", "", (endpoint,), **pool)  # type: ignore[arg-type]
    link = connector.connect(given, endpoint, 10)
    model = Served(link, address, "chat", signature="weir")
    model.backend = connector.backend(link, given, endpoint)
    return model


async def test_everything_goes_over_tls_with_the_credential(secured: TritonDouble, tmp_path: Path) -> None:
    tls = Tls(enabled=True, ca="authority.pem", server_name=NAME)
    model = served(tmp_path, secured.address, tls=tls, credential="proxy")
    backend: TritonModel = model.backend
    assert await backend.ready(10)
    found = await backend.detect(10)
    assert (found.signature, found.misfit) == ("weir", "")
    assert (await read(await model.start("x"))).texts == ["onetwo"]
    assert set(secured.authorizations) == {"Bearer s3cret"}
    backend.link.close()


@pytest.mark.parametrize("tls", [Tls(), Tls(enabled=True), Tls(enabled=True, ca="missing.pem")])
async def test_a_server_that_is_not_trusted_or_not_asked_for_tls_is_down(
    secured: TritonDouble, tmp_path: Path, tls: Tls
) -> None:
    model = served(tmp_path, secured.address, tls=tls)
    with pytest.raises(BackendError):
        await model.backend.ready(10)
    assert not secured.probed


async def test_a_missing_credential_is_named(secured: TritonDouble, tmp_path: Path) -> None:
    tls = Tls(enabled=True, ca="authority.pem", server_name=NAME)
    with pytest.raises(FailedError, match="credential 'other'"):
        await served(tmp_path, secured.address, tls=tls, credential="other").backend.detect(10)
