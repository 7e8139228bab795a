"""Where the policy snapshot comes from: a file, which may lie in a mounted ConfigMap, or the `web` process over HTTP."""

import asyncio
import random
from pathlib import Path
from typing import Protocol

from inference.contract.address import parse_url
from inference.snapshot.snapshot_watch import SnapshotWatch
from inference.wires.http.client import UNANSWERED, HttpClient, request_of
from inference.wires.resolver import Resolver

FILE_NAME = "snapshot.json"
WAIT_S = 25
"""How long `web` may wait for a change before it says that there is none: less than proxies wait for an answer."""
_ANSWER_S = 10.0  # beyond that
_CONNECT_S = 3.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 3.0
_MAX_BYTES = 1 << 30


class Source(Protocol):
    """Offers documents to a watch."""

    def begin(self) -> None:
        """Offer what is there at once, if anything is."""

    async def run(self) -> None:
        """Offer every new document, until it is cancelled."""


class FileSource:
    """Looks at the file again and again: a stat() costs nothing and works on every file system, and through the symbolic links
    by which Kubernetes swaps a ConfigMap. A folder has the file under the name `snapshot.json`.
    """

    def __init__(self, path: Path, watch: SnapshotWatch, poll_s: float) -> None:
        self._path, self._watch, self._poll_s = path, watch, poll_s
        self._seen: tuple[int, int, int] | None = None

    def begin(self) -> None:
        if (raw := self._changed()) is not None:
            self._watch.offer(raw)

    async def run(self) -> None:
        while True:
            if (raw := self._changed()) is not None:
                await self._watch.take(raw)
            await asyncio.sleep(self._poll_s)

    def _changed(self) -> bytes | None:
        """What the file has, if it has changed."""
        path = self._path
        try:
            if path.is_dir():
                path = path / FILE_NAME
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if seen == self._seen:
                return None
            raw = path.read_bytes()
        except OSError as error:
            self._watch.refuse(f"cannot read {path}: {error.strerror or error}", count=False)
            return None
        self._seen = seen
        return raw


class HttpSource:
    """Asks `url` for the document, and for the next one as soon as it has one: the answer comes when there is a change."""

    def __init__(self, url: str, token: str, watch: SnapshotWatch) -> None:
        self._url, self._watch = url, watch
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = HttpClient(Resolver(link_local=True), _CONNECT_S)
        self._etag = ""

    def begin(self) -> None:
        """Nothing is there before the first answer."""

    async def run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                reason = await self._fetch()
            except (*UNANSWERED, TimeoutError, ValueError) as error:
                reason = str(error) or type(error).__name__
            if not reason:
                pause_s = _FIRST_PAUSE_S
                continue
            self._watch.refuse(f"no snapshot from {self._url}: {reason}", count=False)
            await asyncio.sleep(pause_s * (0.5 + random.random()))  # noqa: S311  (so that gateways do not ask all at once)
            pause_s = min(_MAX_PAUSE_S, 2 * pause_s)

    async def _fetch(self) -> str:
        """Ask once. Returns why there is no document; empty if there is one, or no change. Raises UNANSWERED, TimeoutError, ValueError."""
        url = parse_url(self._url, link_local=True, with_query=True)
        url = url._replace(query="&".join(filter(None, (url.query, f"wait_s={WAIT_S}"))))
        headers = {**self._headers, **({"If-None-Match": self._etag} if self._etag else {})}
        async with asyncio.timeout(WAIT_S + _ANSWER_S):
            answer = await self._client.fetch(url, request_of("GET", url, headers), _MAX_BYTES)
        if answer.status == 304:
            self._watch.confirm()
            return ""
        if answer.status in (401, 403):
            return f"status {answer.status}: set WEIR_SNAPSHOT_TOKEN to the same value for gateways and web"
        if answer.status != 200:
            return f"status {answer.status}"
        self._etag = answer.headers.get(b"etag", b"").decode("latin-1")
        await self._watch.take(answer.body)
        return "" if self._etag else "its answer has no ETag"
