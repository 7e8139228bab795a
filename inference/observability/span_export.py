"""Sends spans to an OTLP receiver over HTTP, in batches. Requests never wait for it. Spans that the receiver does not
take in time are dropped and counted.
"""

import asyncio
import socket
import time
from collections import deque
from contextlib import suppress

import structlog

from inference.contract.address import parse_url
from inference.contract.gateway_signals import SPANS_REFUSED_AFTER_S
from inference.core import otlp
from inference.observability.span_encoding import encode_own_call, encode_trace, encode_write
from inference.observability.spans import OwnCall, Trace, Written, now_ns
from inference.tasks import keep
from inference.wires.http.client import UNANSWERED, HttpClient, request_of
from inference.wires.resolver import Resolver

_log = structlog.get_logger()
_BATCH = 512  # traces in one request: about half a megabyte
_RETRY_STATUS = frozenset((429, 502, 503, 504))
_BACKOFF_FIRST_S = 0.5
_MAX_BACKOFF_S = 5.0
_TIMEOUT_S, _CONNECT_S = 10.0, 5.0
_MAX_ANSWER_BYTES = 1 << 20
_MAX_WAITING = 20_000  # traces kept while the receiver is away, about 1 kB each; more are dropped and counted
_HEADERS = {"Content-Type": "application/x-protobuf"}
_LAST_TRY_S = 0.05  # between tries while closing
_SAY_EVERY_S = 60.0
_ANCHOR_DRIFT_NS = 1_000_000  # a wall clock that was set or has drifted by more gets a new anchor

Item = Trace | Written | OwnCall


class SpanExport:
    """`endpoint` is the receiver's base URL; empty exports nothing. `token` is what it wants of senders; empty for none.
    `submit` never waits.
    """

    def __init__(self, endpoint: str, *, interval_s: float, token: str = "") -> None:
        self.exported = 0  # traces
        self.dropped = 0
        self._url = endpoint.rstrip("/") + "/v1/traces" if endpoint else ""
        self._headers = _HEADERS | ({"Authorization": f"Bearer {token}"} if token else {})
        self._interval_s = interval_s
        self._queue: deque[bytes] = deque()  # each trace's spans, encoded
        self._loop: asyncio.AbstractEventLoop | None = None
        self._offset_ns = _wall_offset_ns()
        self._task: asyncio.Task[None] | None = None
        self._client = HttpClient(Resolver(link_local=True), _CONNECT_S)
        self._closing = asyncio.Event()
        self._failing_since_s: float | None = None
        self._reason = ""
        self._said_s = float("-inf")
        self._resource = (("service.name", "weir-gateway"), ("service.instance.id", socket.gethostname()))

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def refusal(self) -> str:
        """Why the receiver has taken nothing for SPANS_REFUSED_AFTER_S; empty where it has, or was sent nothing."""
        since_s = self._failing_since_s
        return "" if since_s is None or time.monotonic() - since_s < SPANS_REFUSED_AFTER_S else self._reason

    def submit(self, item: Item) -> None:
        """Encode it in the next turn of the event loop, when its request's answer has been sent.

        Encoding many at once, before sending them, would hold up the requests of that moment: with 32 at a time, the
        p99 of a hit was three times as long.
        """
        if self._loop is None:
            return
        if len(self._queue) >= _MAX_WAITING:
            self.dropped += 1
            return
        self._loop.call_soon(self._encode, item)

    def _encode(self, item: Item) -> None:
        match item:
            case Trace():
                self._queue.append(encode_trace(item, self._offset_ns))
            case Written():
                self._queue.append(encode_write(item, self._offset_ns))
            case OwnCall():
                self._queue.append(encode_own_call(item, self._offset_ns))

    def start(self) -> None:
        if self._url:
            self._loop = asyncio.get_running_loop()
            self._task = keep("spans", self._run)

    async def close(self, timeout_s: float) -> None:
        """Send the rest, for at most `timeout_s`."""
        if self._task is None:
            return
        self._closing.set()
        done, _ = await asyncio.wait([self._task], timeout=timeout_s)
        if not done:
            self._task.cancel()
            _log.warning("spans.lost", reason="the receiver did not take them before the end")
        self._client.close()

    async def _run(self) -> None:
        while self._queue or not self._closing.is_set():
            await self._pause(self._interval_s)
            offset_ns = _wall_offset_ns()
            if abs(offset_ns - self._offset_ns) > _ANCHOR_DRIFT_NS:
                self._offset_ns = offset_ns
            while self._queue:
                await self._send_batch()

    async def _pause(self, seconds: float) -> None:
        """Sleep until the time is over or `close` is called."""
        if self._closing.is_set():
            await asyncio.sleep(min(seconds, _LAST_TRY_S))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _send_batch(self) -> None:
        size = min(_BATCH, len(self._queue))
        spans = [self._queue.popleft() for _ in range(size)]
        body = otlp.request(spans, "weir.gateway", self._resource)
        if await self._post(body):
            self.exported += size
        else:
            self.dropped += size

    async def _post(self, body: bytes) -> bool:
        """Returns whether the receiver took it. Tries again as OTLP demands, while the queue has room for new spans."""
        backoff_s = _BACKOFF_FIRST_S
        while True:
            wait_s = backoff_s
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    url = parse_url(self._url, link_local=True)
                    request = request_of("POST", url, self._headers, body)
                    status, headers, _ = await self._client.fetch(url, request, _MAX_ANSWER_BYTES)
                if status == 200:
                    self._taken()
                    return True
                reason = f"HTTP {status}"
                if status not in _RETRY_STATUS:
                    self._failed("spans.refused", reason)
                    return False
                wait_s = _retry_after_s(headers.get(b"retry-after", b"")) or backoff_s
            except (*UNANSWERED, TimeoutError, ValueError) as error:
                reason = str(error) or type(error).__name__
            self._failed("spans.delayed", reason)
            if len(self._queue) >= _MAX_WAITING:
                return False
            await self._pause(wait_s)
            backoff_s = min(_MAX_BACKOFF_S, backoff_s * 2)

    def _failed(self, event: str, reason: str) -> None:
        """Log it when it begins, and each minute while it lasts."""
        now_s = time.monotonic()
        self._reason = reason
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if now_s - self._said_s >= _SAY_EVERY_S:
            _log.warning(event, reason=reason, dropped=self.dropped)
            self._said_s = now_s

    def _taken(self) -> None:
        if self._failing_since_s is not None:
            _log.info("spans.resumed", dropped=self.dropped)
        self._failing_since_s = None


def _retry_after_s(header: bytes) -> float:
    return min(60.0, float(header)) if header.isdigit() else 0.0


def _wall_offset_ns() -> int:
    """Wall clock minus monotonic clock: the largest of a few readings, which was interrupted least."""
    return max(time.time_ns() - now_ns() for _ in range(5))
