"""Spans that their receiver does not take."""

from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from controlplane.fleet.observe.core.ready import reading
from controlplane.fleet.observe.targets import GATEWAY
from inference.app import Gateway
from inference.config import Config
from inference.observability import span_export
from inference.observability.families import render
from inference.observability.spans import Written
from tests.support.http_server import serving
from tests.support.wait import eventually_async


async def test_a_gateway_whose_spans_nobody_takes_says_so_and_logs_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = 401

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    def error() -> str:
        return reading(200, "", 200, render(gateway.metrics.families(), b"")[0].decode(), GATEWAY).error

    async with serving(web.post("/v1/traces", answer)) as url:
        gateway = Gateway(Config(home=tmp_path, redis_url="", otlp_endpoint=url, otlp_interval_ms=10))
        export = gateway.export
        with capture_logs() as logs:
            export.start()
            for number in range(1, 4):
                export.submit(Written(bytes(16), bytes(8), 1, 2, True))
                await eventually_async(lambda number=number: export.dropped == number)  # type: ignore[misc]
            assert (export.refusal, "its spans" in error()) == ("", False), "it may be starting"
            monkeypatch.setattr(span_export, "SPANS_REFUSED_AFTER_S", 0.0)
            assert "telemetry takes none of its spans (HTTP 401)" in error()
            status = 200
            export.submit(Written(bytes(16), bytes(8), 1, 2, True))
            await eventually_async(lambda: export.exported == 1)
            assert (export.refusal, "its spans" in error()) == ("", False)
            await export.close(1.0)
    assert [each["event"] for each in logs] == ["spans.refused", "spans.resumed"]
