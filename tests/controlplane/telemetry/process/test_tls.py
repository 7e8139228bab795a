"""The receivers with TLS: who gets a connection, and certificates that change while they run."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from controlplane.telemetry.config import IngestConfig
from controlplane.telemetry.process.service import StartError, serve
from tests.support.gateway.tls import Issued, issue
from tests.support.telemetry.otlp_grpc import EXPORT
from tests.support.telemetry.process import Run, Running
from tests.support.wait import eventually

NO_STORE = "clickhouse://weir:x@127.0.0.1:1/weir"


@pytest.fixture
def shown(tmp_path: Path) -> Issued:
    return issue(tmp_path, "receiver")


@pytest.fixture
def sender(tmp_path: Path) -> Issued:
    return issue(tmp_path, "sender")


@pytest.fixture
def receiving(run: Run, shown: Issued, sender: Issued, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)  # it would win over the exporter's own
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    return run(
        otlp_host="0.0.0.0",
        otlp_certificate=shown.certificate,
        otlp_key=shown.key,
        otlp_client_ca=sender.certificate,
        store_dsn=NO_STORE,
    )


def over_http(telemetry: Running, shown: Issued, own: Issued | None) -> bool:
    """Whether the SDK's own exporter delivers a span."""
    exporter = OTLPSpanExporter(
        f"https://localhost:{telemetry.http_port}/v1/traces",
        certificate_file=str(shown.certificate),
        client_certificate_file=str(own.certificate) if own else None,
        client_key_file=str(own.key) if own else None,
        timeout=5,
    )
    span = TracerProvider().get_tracer("tests").start_span("work")
    span.end()
    try:
        return exporter.export([span]) is SpanExportResult.SUCCESS  # type: ignore[list-item]
    except requests.exceptions.RequestException:
        return False


def over_grpc(telemetry: Running, shown: Issued, own: Issued | None) -> bool:
    keys = (own.key.read_bytes(), own.certificate.read_bytes()) if own else (None, None)
    credentials = grpc.ssl_channel_credentials(shown.certificate.read_bytes(), *keys)
    with grpc.secure_channel(f"localhost:{telemetry.grpc_port}", credentials) as channel:
        try:
            call: Any = channel.unary_unary
            return bool(call(EXPORT)(b"", timeout=10) == b"")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            return False


SENDING: tuple[Callable[..., bool], ...] = (over_http, over_grpc)


def test_senders_need_a_certificate_of_the_authority_and_files_may_change(
    receiving: Running, shown: Issued, sender: Issued, tmp_path: Path
) -> None:
    stranger = issue(tmp_path, "stranger")
    for send in SENDING:
        assert send(receiving, shown, sender)
        assert not send(receiving, shown, None)
        assert not send(receiving, shown, stranger)
    with pytest.raises(OSError):
        receiving.get("/readyz")  # plain text

    good = shown.key.read_bytes()
    shown.key.write_bytes(b"half of a")
    eventually(lambda: "certificate.refused" in receiving.log.read_text(), "it says that the pair does not fit")
    assert all(send(receiving, shown, sender) for send in SENDING)
    shown.key.write_bytes(good)

    before = (sender.certificate.read_bytes(), sender.key.read_bytes())
    renewed, new_sender = issue(tmp_path, "receiver"), issue(tmp_path, "sender")
    for send in SENDING:
        eventually(partial(send, receiving, renewed, new_sender), "it uses the new files")
    old = Issued(tmp_path / "old.pem", tmp_path / "old.key", 0)
    old.certificate.write_bytes(before[0])
    old.key.write_bytes(before[1])
    assert not any(send(receiving, renewed, old) for send in SENDING)


async def test_half_of_a_certificate_is_refused_with_the_remedy(home: Path, shown: Issued) -> None:
    config = IngestConfig(home=home, otlp_certificate=shown.certificate)
    with pytest.raises(StartError, match="set both WEIR_OTLP_CERTIFICATE and WEIR_OTLP_KEY"):
        async with serve(config):
            pass
