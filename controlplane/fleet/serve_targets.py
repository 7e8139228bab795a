"""Serves the scrape targets to a telemetry process elsewhere: `GET /internal/scrape-targets`, an ASGI application beside Django's."""

import json
from collections.abc import Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import Error, connection

from controlplane.fleet import scrape
from controlplane.fleet.serve_snapshot import Receive, Send
from inference.contract.metrics_access import may_read_metrics

PATH = "/internal/scrape-targets"


async def application(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """The list that `scrape-targets.json` has on one machine. Tokens are named in it, never written."""
    status, body = await _answer(scope)
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def _targets() -> list[dict[str, object]]:
    try:
        return scrape.targets(settings.CONFIG)
    finally:
        connection.close()  # outside of Django's requests nobody else does


async def _answer(scope: Mapping[str, Any]) -> tuple[int, object]:
    peer = (scope.get("client") or ("", 0))[0]
    if scope["method"] != "GET":
        return 405, {"error": f"{PATH} does not answer to {scope['method']}. Use GET."}
    if not may_read_metrics(settings.CONFIG.snapshot_token, peer, dict(scope["headers"])):
        return 401, {
            "error": "Targets are for `Authorization: Bearer` with WEIR_SNAPSHOT_TOKEN; without such a token, for this machine."
        }
    try:
        return 200, await sync_to_async(_targets)()
    except Error:
        return 503, {"error": "The database does not answer."}
