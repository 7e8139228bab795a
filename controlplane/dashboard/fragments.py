"""The data of a page, as the browser would get it by HTTP, out of this process: from the same views, for the same user."""

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from django.core.handlers.asgi import ASGIHandler

KEPT = (b"host", b"cookie", b"x-forwarded-proto", b"x-forwarded-for")
SAYS = ((b"hx-request", b"true"), (b"weir-refresh", b"1"))
SENT_AWAY = (302, 401, 403)


class LoggedOutError(Exception):
    """Permanent: the session has ended, or the person has no role any more."""


@functools.cache
def _django() -> Any:
    return ASGIHandler()  # loads the middleware, once


async def fragment(socket: Mapping[str, Any], path: str) -> str:
    """`socket`: the scope of the browser's web socket. What explains a bad question or an absent store is an answer too."""
    plain, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "https" if socket.get("scheme") == "wss" else "http",
        "path": plain,
        "root_path": "",
        "query_string": query.encode(),
        "headers": [*((name, value) for name, value in socket["headers"] if name in KEPT), *SAYS],
        "client": socket.get("client"),
        "server": socket.get("server"),
    }
    status, body = 0, b""
    received = False

    async def receive() -> dict[str, Any]:
        nonlocal received
        if received:
            await asyncio.Event().wait()  # the browser stays
        received = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    await _django()(scope, receive, send)
    if status in SENT_AWAY:
        raise LoggedOutError
    return body.decode()
