"""The launcher with a gateway that speaks TLS."""

from pathlib import Path

import pytest

from deploy.local import options
from deploy.local.backend import Server
from deploy.local.errors import CannotRunError
from deploy.local.parts import build
from deploy.local.ports import free_port
from deploy.local.process import http_status
from inference.contract import snapshot_file
from tests.support.gateway.scripted import a_snapshot
from tests.support.gateway.tls import Issued, issue
from tests.support.start import Start


@pytest.fixture
def issued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Issued:
    made = issue(tmp_path)
    monkeypatch.setenv("WEIR_TLS_CERTIFICATE", str(made.certificate))
    monkeypatch.setenv("WEIR_TLS_KEY", str(made.key))
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WEIR_GATEWAY_PORT", str(free_port()))
    return made


def test_the_gateway_is_ready_and_called_over_tls(
    issued: Issued, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options.read()
    (given.home / "run").mkdir(parents=True)
    parts = {part.name: part for part in build(given, [Server("http://127.0.0.1:9/v1", ())]).parts}
    snapshot_file.write(given.home / "snapshot.json", a_snapshot())
    gateway = parts["gateway"].command
    assert start(gateway).is_ready()
    assert gateway.answers is not None and gateway.answers() == 200
    with pytest.raises(OSError):
        http_status(given.gateway_port, "/readyz")
    for name in ("web", "worker"):
        assert parts[name].command.env["WEIR_GATEWAY_URL"] == f"https://localhost:{given.gateway_port}"


def test_certificates_of_clients_are_refused_with_the_reason(issued: Issued, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_TLS_CLIENT_CA", str(issued.certificate))
    with pytest.raises(CannotRunError, match="WEIR_TLS_CLIENT_CA"):
        options.read()
