"""The server of processes that serve nothing else: the worker and the controller."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from controlplane.config import Config
from controlplane.config.connections import connections_of
from controlplane.observability.metrics_server import serve, serve_by
from inference.contract.tls.certificate import ServerCertificate
from tests.support.gateway.tls import Issued, issue

pytestmark = pytest.mark.django_db(transaction=True)  # some metrics are read from the database

TOKEN = "a-token-of-ours"


@pytest.fixture(params=["", TOKEN], ids=["without a token", "with a token"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[int, str]]:
    """Its port and its token."""
    running = serve("127.0.0.1", 0, request.param, lambda: (503, "no tick yet"))
    yield running.server_address[1], request.param
    running.shutdown()
    running.server_close()


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    request = Request(
        f"http://127.0.0.1:{port}{path}", headers={key.replace("_", "-"): headers[key] for key in headers}
    )
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_health_needs_no_token(server: tuple[int, str]) -> None:
    port, _ = server
    assert get(port, "/healthz") == (200, "ok\n")
    assert get(port, "/readyz") == (503, "no tick yet\n")
    assert get(port, "/other") == (404, "only /healthz, /readyz and /metrics are here\n")


def test_a_process_without_readyz_does_not_name_it() -> None:
    running = serve("127.0.0.1", 0, "")
    assert get(running.server_address[1], "/readyz") == (404, "only /healthz and /metrics are here\n")
    running.shutdown()
    running.server_close()


def test_metrics_are_for_the_token_or_without_one_for_this_machine(server: tuple[int, str]) -> None:
    port, token = server
    status, text = get(port, "/metrics")
    assert (status, "WEIR_METRICS_TOKEN" in text) == ((401, True) if token else (200, False))
    assert get(port, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert get(port, "/metrics", Authorization="Bearer another")[0] == (401 if token else 200)


@pytest.mark.parametrize("name", ["X_Forwarded_For", "Forwarded"])
def test_a_proxy_on_this_machine_does_not_open_metrics_to_others(server: tuple[int, str], name: str) -> None:
    port, token = server
    status, text = get(port, "/metrics", **{name: "10.0.0.7"})
    assert status == 401
    assert "WEIR_METRICS_TOKEN" in text
    if token:
        assert get(port, "/metrics", **{name: "10.0.0.7", "Authorization": f"Bearer {token}"})[0] == 200


def test_over_tls_it_shows_the_certificate_that_lies_there_now(tmp_path: Path) -> None:
    first, second = issue(tmp_path, "first"), issue(tmp_path, "second")
    shown = ServerCertificate(first.certificate, first.key, None, "WEIR_METRICS")
    running = serve("127.0.0.1", 0, "", lambda: (200, "ready"), shown)
    try:
        port = running.server_address[1]

        def ready(by: Issued) -> str:
            with urlopen(f"https://localhost:{port}/readyz", timeout=60, context=by.trusting()) as answer:
                return str(answer.read().decode())

        with socket.create_connection(("127.0.0.1", port)):  # who says nothing delays nobody
            assert ready(first) == "ready\n"
        with pytest.raises(OSError):
            get(port, "/readyz")
        first.certificate.write_bytes(second.certificate.read_bytes())
        first.key.write_bytes(second.key.read_bytes())
        assert ready(second) == "ready\n"
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ready(issue(tmp_path, "third"))
    finally:
        running.shutdown()
        running.server_close()


def test_a_process_whose_address_or_certificate_cannot_be_used_ends_with_a_sentence(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SystemExit, match="change WEIR_CONTROLLER_PORT"),
    ):
        serve_by(Config(), "WEIR_CONTROLLER_PORT", *taken.getsockname())
    missing = Config(metrics_certificate=tmp_path / "none.pem", metrics_key=tmp_path / "none.key")
    with pytest.raises(SystemExit, match=r"WEIR_METRICS_CERTIFICATE=.*No such file"):
        serve_by(missing, "WEIR_CONTROLLER_PORT", "127.0.0.1", 0)


def test_what_processes_speak_to_is_listed_with_mail_and_log_ins() -> None:
    oidc = [{"id": "npm", "name": "npm", "issuer": "https://login.example.com", "client_id": "w", "client_secret": "s"}]
    config = Config(
        mail_url="smtp://rita:pw@mail.example.com:587", oidc=json.dumps(oidc), worker_metrics="10.0.0.7:8091",  # type: ignore[arg-type]
    )  # fmt: skip
    said = {each.to: each for each in connections_of(config)}
    assert said["mail server"] == ("mail server", "mail.example.com:587", True, False)
    assert said["log-in, npm"].encrypted and said["metrics of the worker"].in_the_clear
    encrypted = config.model_copy(update={"metrics_certificate": Path("c.pem"), "metrics_key": Path("k.pem")})
    assert not {each.to: each for each in connections_of(encrypted)}["metrics of the worker"].in_the_clear
