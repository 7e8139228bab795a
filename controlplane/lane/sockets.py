"""The same events as `/v1/jobs/events` and its kin at the gateway, over web sockets of the web process, with a tenant's API key."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
import structlog
from channels.routing import URLRouter
from django.db import DatabaseError
from django.urls import path

from controlplane.lane.core.feed import Event
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.feed import ALL_URL, POLL_S, URLS, Reader, Readers
from controlplane.lane.store.files import NotThereError
from controlplane.lane.store.keys import tenant_of
from controlplane.lane.store.limits import FullError
from controlplane.lane.threads import in_thread
from inference.contract.snapshot import key_digest

log = structlog.get_logger(__name__)
PREFIX = "/v1/"
_SILENT_S, _UNREAD_S = 15.0, 60.0
_ENDED, _LATER, _REFUSED, _NO_KEY, _NOT_THERE, _FULL = 1000, 1011, 4400, 4401, 4404, 4429
"""Close codes. Those above 4000 resemble HTTP's statuses."""
_readers = Readers()
Say = Callable[[str], Awaitable[None]]


class NoKeyError(Exception):
    """Permanent: the request has no key, or one that is none, disabled or expired."""

    code = "invalid_api_key"

    def __init__(self) -> None:
        super().__init__("Send an API key of the gateway as Authorization: Bearer KEY.")


_CODES: Mapping[type[Exception], int] = {
    NoKeyError: _NO_KEY,
    NotThereError: _NOT_THERE,
    RefusedError: _REFUSED,
    FullError: _FULL,
}


async def events(scope: Any, receive: Any, send: Any) -> None:
    """Of a batch or job of the URL's kind, or of all that is the tenant's; `?after=ID` goes on after an event. A client sends nothing."""

    async def say(text: str) -> None:
        async with asyncio.timeout(_UNREAD_S):
            await send({"type": "websocket.send", "text": text})

    async def hear() -> dict[str, Any]:
        return await receive()  # type: ignore[no-any-return]

    await receive()  # that it connects
    await send({"type": "websocket.accept"})
    speaking, hearing = asyncio.create_task(_tell(scope, say)), asyncio.create_task(hear())
    try:
        await asyncio.wait((speaking, hearing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (speaking, hearing):  # granian closes no socket that is listened to
            task.cancel()
        code, heard = await asyncio.gather(speaking, hearing, return_exceptions=True)
    if isinstance(heard, dict):
        if heard["type"] == "websocket.disconnect":
            return
        code = _REFUSED
    await send({"type": "websocket.close", "code": code if isinstance(code, int) else _LATER})


async def _tell(scope: Any, say: Say) -> int:
    """Every event; returns the close code."""
    try:
        await _say_events(scope, say)
    except (NoKeyError, NotThereError, RefusedError, FullError) as error:
        said = {"message": str(error), "code": getattr(error, "code", "not_found")}
        await say(msgspec.json.encode({"error": said}).decode())
        return _CODES[type(error)]
    except (DatabaseError, TimeoutError) as error:
        log.warning("lane.socket_failed", reason=str(error))
        return _LATER
    return _ENDED


async def _say_events(scope: Any, say: Say) -> None:
    """Raises NoKeyError, NotThereError, RefusedError, FullError, DatabaseError, and TimeoutError where nobody reads."""
    scheme, _, key = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").partition(" ")
    digest = key_digest(key.strip()) if scheme.lower() == "bearer" else ""
    of = scope["url_route"]["kwargs"]
    after = parse_qs(scope["query_string"].decode("latin-1")).get("after", [""])[0]
    tenant = await in_thread(lambda: _tenant(digest))
    with _readers.another(tenant):
        reader = await in_thread(lambda: Reader(tenant, of["kind"], of.get("name", ""), after))

        def read() -> tuple[list[Event], bool]:
            if _tenant(digest) != tenant:
                raise NoKeyError
            return reader.read()

        said_s = time.monotonic()
        while True:
            news, ended = await in_thread(read)
            if not news and time.monotonic() - said_s > _SILENT_S:
                news = [reader.idle()]
            for event in news:
                await say(event.to_socket())
                said_s = time.monotonic()
            if ended:
                return
            await asyncio.sleep(POLL_S)


def _tenant(digest: str) -> str:
    """Raises NoKeyError."""
    tenant = tenant_of(digest)
    if tenant is None:
        raise NoKeyError
    return tenant


def _path(url: str, kind: str) -> Any:
    view: Any = events  # to Channels it is an application
    return path(url.removeprefix("/"), view, {"kind": kind})


application = URLRouter([_path(ALL_URL, ""), *(_path(f"{url}/<name>/events", kind) for kind, url in URLS.items())])
