"""An export is sent as it is read, under ASGI too: what has been read and not yet sent is one piece, however long the file."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.test import Client

from controlplane.telemetry.query import answers

PIECES = 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_no_more_than_a_piece_waits_to_be_sent(form: str, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def pieces(*_: object) -> Iterator[bytes]:
        nonlocal made
        for _number in range(PIECES):
            made += 1
            yield bytes(10_000)

    monkeypatch.setattr(answers, "export", pieces)
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in reader.cookies.items())
    sent: list[dict[str, Any]] = []
    asked, waiting = {"body": True}, 0

    async def receive() -> dict[str, Any]:
        if asked.pop("body", None):
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()  # nobody goes away
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        nonlocal waiting
        sent.append(message)
        done = sum(bool(one.get("body")) for one in sent)
        waiting = max(waiting, made - done)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": f"/api/v1/requests.{form}", "raw_path": b"", "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), (b"cookie", cookies.encode())],
        "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip
    asyncio.run(get_asgi_application()(scope, receive, send))
    assert sent[0]["status"] == 200
    assert sum(len(one.get("body", b"")) for one in sent) == PIECES * 10_000
    assert waiting <= 1
