"""Serves the policy snapshot to gateways elsewhere: `GET /internal/snapshot`, which waits for a change.

It is an ASGI application beside Django's: hundreds of gateways wait here at a time, and Django's middleware would hold a thread for
each of them.
"""

import asyncio
import gzip
import json
import signal
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import structlog
from django.conf import settings
from django.db import Error, connection
from prometheus_client import Counter, Gauge

from controlplane.fleet.models import PublishedSnapshot
from inference.contract.metrics_access import may_read_metrics

log = structlog.get_logger(__name__)
PATH = "/internal/snapshot"
MAX_WAIT_S = 25.0
LOOK_S = 0.1
"""How often the database is looked at while a gateway waits."""
WATCHERS = Gauge("weir_web_snapshot_watchers", "Gateways that wait for another policy snapshot.")
SERVED = Counter("weir_web_snapshots_served", "Answers to gateways that asked for the policy snapshot.", ["status"])

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Document(NamedTuple):
    etag: str
    body: bytes
    compressed: bytes


class UnavailableError(Exception):
    """The database does not answer, and no document was read before. Retryable, after `retry_after_s` seconds."""

    retry_after_s = 1


class Feed:
    """The document in force, and those that come, for all gateways that this process serves. It looks at the database only while
    somebody waits, over a connection of its own.
    """

    def __init__(self) -> None:
        self._document: Document | None = None
        self._news = asyncio.Event()  # another document; a new event for each
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "snapshot")
        self._failed = False
        self._hears = False  # a handler of SIGTERM calls `end`
        self._ended = False

    def end(self) -> None:
        """Answer all that wait now, and who asks later at once."""
        self._ended = True
        self._tell()

    async def after(self, etag: str, wait_s: float) -> Document | None:
        """The first document with another etag; None if there was none within `wait_s`. Raises UnavailableError."""
        self._hears = self._hears or _at_sigterm(self.end)
        self._waiting += 1
        try:
            if self._looking is None:
                await self._look()
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._keep_looking())
            try:
                async with asyncio.timeout(wait_s):
                    while self._document is not None and self._document.etag == etag:
                        if self._ended:
                            return None
                        await self._news.wait()
            except TimeoutError:
                return None
            if self._document is None:
                raise UnavailableError
            return self._document
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.get_running_loop().run_in_executor(self._thread, _close)
        self._thread.shutdown()

    async def _keep_looking(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(LOOK_S)
                await self._look()
        finally:
            self._looking = None

    async def _look(self) -> None:
        """Read the document where it is another. A database that does not answer leaves the one that is known."""
        known = self._document.etag if self._document else ""
        try:
            new = await asyncio.get_running_loop().run_in_executor(self._thread, _read, known)
        except Error as error:
            if not self._failed:
                log.error("snapshot.not_read", reason=str(error), effect="gateways keep the one they have")  # noqa: TRY400
            self._failed = True
            return
        self._failed = False
        if new is not None:
            self._document = new
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _at_sigterm(call: Callable[[], None]) -> bool:
    """Call `call` at SIGTERM, beside what the server does then: granian waits for every answer. False where no loop handles it."""
    loop = asyncio.get_running_loop()
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler):
        return False

    def ending(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(call)
        handler(number, frame)

    signal.signal(signal.SIGTERM, ending)
    return True


def _read(known: str) -> Document | None:
    """The document in force, if it is not the one with the etag `known`. Raises django.db.Error."""
    try:
        rows = PublishedSnapshot.objects.exclude(etag__in=("", known))
        row = rows.values_list("etag", "text").first()
    except Error:
        connection.close_if_unusable_or_obsolete()
        raise
    if row is None:
        return None
    etag, text = row[0], row[1].encode()
    return Document(etag, text, gzip.compress(text, 5, mtime=0))


def _close() -> None:
    """Close the connection of this thread: `connection` is another one in each."""
    connection.close()


class SnapshotApplication:
    """ASGI: answers `GET /internal/snapshot?wait_s=…` with the document, and 304 where `If-None-Match` names it still."""

    def __init__(self) -> None:
        self.feed = Feed()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        status, headers, body = await self._answer(scope, receive)
        if not status:
            return  # the gateway has left
        SERVED.labels(str(status)).inc()
        await send(
            {"type": "http.response.start", "status": status, "headers": [*headers, (b"cache-control", b"no-store")]}
        )
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Status, headers and body; status 0 where the gateway has left."""
        headers = dict(scope["headers"])
        if scope["method"] != "GET":
            return _error(405, f"{PATH} does not answer to {scope['method']}. Use GET.", (b"allow", b"GET"))
        peer = (scope.get("client") or ("", 0))[0]
        if not may_read_metrics(settings.CONFIG.snapshot_token, peer, headers):
            return _error(
                401,
                "The snapshot is for `Authorization: Bearer` with WEIR_SNAPSHOT_TOKEN; without such a token, for this machine.",
                (b"www-authenticate", b"Bearer"),
            )
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("wait_s", ["0"])[-1]
        try:
            wait_s = float(given)
        except ValueError:
            wait_s = -1.0
        if not 0 <= wait_s <= MAX_WAIT_S:
            return _error(400, f"wait_s={given!r} is not a time: send seconds from 0 to {MAX_WAIT_S:g}.")
        etag = headers.get(b"if-none-match", b"").decode("latin-1").removeprefix("W/").strip('" ')
        return await self._wait(receive, etag, wait_s, b"gzip" in headers.get(b"accept-encoding", b""))

    async def _wait(
        self, receive: Receive, etag: str, wait_s: float, compress: bool
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        waiting = asyncio.ensure_future(self.feed.after(etag, wait_s))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            with WATCHERS.track_inprogress():
                await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return 0, [], b""
            document = waiting.result()
        except UnavailableError as error:
            return _error(
                503, "No snapshot is known: the database does not answer, or nothing was published yet.",
                (b"retry-after", b"%d" % error.retry_after_s),
            )  # fmt: skip
        finally:
            waiting.cancel()
            leaving.cancel()
        if document is None:
            return 304, [(b"etag", f'"{etag}"'.encode())], b""
        named = [(b"content-type", b"application/json"), (b"etag", f'"{document.etag}"'.encode())]
        if compress:
            return 200, [*named, (b"content-encoding", b"gzip")], document.compressed
        return 200, named, document.body


async def _left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _error(status: int, text: str, *headers: tuple[bytes, bytes]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    return status, [(b"content-type", b"application/json"), *headers], json.dumps({"error": text}).encode()
