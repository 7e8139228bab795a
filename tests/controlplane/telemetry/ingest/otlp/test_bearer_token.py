"""Who may send, and when the process refuses to start."""

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.telemetry.ingest.otlp.bearer_token import allowed, problem
from tests.support.telemetry.process import Running, request


@pytest.mark.parametrize(
    "header", [None, "", "secret", "Basic secret", "Bearer", "Bearer ", "Bearer secret2", "Bearer sécret"]
)
def test_only_the_token_opens(header: str | None) -> None:
    assert not allowed("secret", header)
    assert allowed("secret", "bearer secret") and allowed("secret", "Bearer  secret ")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_loopback_addresses_need_no_token(host: str) -> None:
    assert not problem(host, "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "weir.example.org", ""])
def test_any_other_address_needs_one(host: str) -> None:
    assert "WEIR_OTLP_TOKEN" in problem(host, "") and not problem(host, "secret")


def test_it_does_not_start_open_to_other_machines(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "controlplane.telemetry"],
        env={"WEIR_HOME": str(tmp_path), "WEIR_OTLP_HOST": "0.0.0.0", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("telemetry cannot start: WEIR_OTLP_HOST=0.0.0.0") and ended.stderr.count("\n") == 1


def test_with_a_token_only_health_checks_answer_without_it(guarded: Running) -> None:
    telemetry = guarded
    assert telemetry.get("/healthz")[0] == 200
    assert telemetry.get("/readyz")[0] == 503  # the store was never reached
    for path in ("/metrics", "/v1/traces"):
        code, _, headers = request("GET" if path == "/metrics" else "POST", telemetry.url + path, None)
        assert (code, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert telemetry.get("/metrics", Authorization="Bearer secret")[0] == 200
    assert telemetry.post(b"", Authorization="Bearer secret")[0] == 200
