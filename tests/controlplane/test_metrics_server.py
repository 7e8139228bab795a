"""The server of processes that serve nothing else: the worker and the controller."""

from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from controlplane.observability.metrics_server import serve

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
    assert get(port, "/other")[0] == 404


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
