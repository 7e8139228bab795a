"""Keeps open pages up to date: their data is asked for within this process, and what changed of it is sent.

A browser says what it shows: `{"watch": "/latency?model=chat", "number": 3}`; an empty path, that it wants nothing. From then on it
gets, as JSON in gzip, `{"number", "html"}`, and later `{"number", "changes"}` (`core.difference`) against what it was sent before.
`{"renew": true}` asks for the present data, whether or not something is known to have changed. A text, in place of all that, says that
the session has ended.
"""

import asyncio
import gzip
import json
import time
from contextlib import suppress
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer

from controlplane.accounts.sockets import NOT_LOGGED_IN
from controlplane.dashboard.core.difference import difference
from controlplane.dashboard.fragments import LoggedOutError, fragment
from controlplane.dashboard.links import is_page

log = structlog.get_logger(__name__)
GROUP, LOGGED_OUT = "live", "logged out"
REFRESH_S = 2.0
REST = 10
"""Renewals may take a tenth of the time: a page over a long range, left open on a wall, must not keep the store busy."""
MAX_PATH = 8_000


class Live(AsyncWebsocketConsumer):  # type: ignore[misc]
    groups = [GROUP]

    async def connect(self) -> None:
        self._path, self._number = "", 0
        self._has: str | None = None  # what the browser was sent last
        self._due, self._watches = asyncio.Event(), asyncio.Event()
        await self.accept()
        self._renewing = asyncio.create_task(self._renew())

    async def disconnect(self, code: int) -> None:
        self._renewing.cancel()
        with suppress(asyncio.CancelledError):
            await self._renewing

    async def live_changed(self, event: dict[str, Any]) -> None:
        self._due.set()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """What is not understood is ignored."""
        try:
            said = json.loads(text_data or "")
        except ValueError:
            return
        match said:
            case {"watch": str(path), "number": int(number)} if len(path) <= MAX_PATH and (not path or is_page(path)):
                self._path, self._number, self._has = path, number, None
                (self._watches.set if path else self._watches.clear)()
            case {"renew": True}:
                self._due.set()

    async def _renew(self) -> None:
        while True:
            await self._due.wait()
            await self._watches.wait()  # what changes before the browser has said what it shows is told then
            self._due.clear()
            began = time.monotonic()
            try:
                await self._send()
            except LoggedOutError:
                # Granian closes no socket that is listened to, and the browser would wait.
                await self.send(LOGGED_OUT)
                await self.close(NOT_LOGGED_IN)
                return
            except Exception as error:  # noqa: BLE001  (the next change is another try)
                log.warning("live.not_renewed", path=self._path, error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(max(REFRESH_S, REST * (time.monotonic() - began)))

    async def _send(self) -> None:
        path, number = self._path, self._number
        html = await fragment(self.scope, path)
        if (path, number) != (self._path, self._number):
            self._due.set()
            return
        news: dict[str, Any] = {"html": html} if self._has is None else {"changes": difference(self._has, html)}
        self._has = html
        await self.send(
            bytes_data=gzip.compress(json.dumps({"number": number, **news}, separators=(",", ":")).encode(), 6, mtime=0)
        )
