"""Scrape targets for a telemetry process elsewhere, through the application that web serves."""

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from controlplane.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)


async def get(peer: str, token: str = "") -> tuple[int, bytes]:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/internal/scrape-targets",
        "headers": headers,
        "client": (peer, 1),
    }
    asked = ApplicationCommunicator(application, scope)
    await asked.send_input({"type": "http.request"})
    started, body = await asked.receive_output(10), await asked.receive_output(10)
    return started["status"], body["body"]


async def test_it_serves_the_list_to_who_has_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CONFIG", settings.CONFIG.model_copy(update={"snapshot_token": "right"}))
    assert (await get("10.0.0.9"))[0] == 401
    assert (await get("10.0.0.9", "wrong"))[0] == 401
    status, body = await get("10.0.0.9", "right")
    assert status == 200
    assert b'"job": "gateway"' in body


async def test_without_a_token_it_answers_its_own_machine_alone() -> None:
    assert (await get("10.0.0.9"))[0] == 401
    assert (await get("127.0.0.1"))[0] == 200
