"""Stores answers in the cache after the requests have them."""

import asyncio
from collections import Counter
from functools import partial

import structlog

from inference.observability.span_export import SpanExport
from inference.observability.spans import Written, now_ns
from inference.request.coalesce import Flight
from inference.request.exact.cache import Cache
from inference.request.work import Work

_log = structlog.get_logger()


class WriteBack:
    """No request waits for a write. Each write has a span of its own."""

    def __init__(self, cache: Cache | None, export: SpanExport) -> None:
        self._cache = cache
        self._export = export
        self._writes: set[asyncio.Future[int]] = set()
        self.written: Counter[tuple[str, str]] = Counter()  # bytes that Redis took, by model and routing rule

    def start(self, key: bytes, flight: Flight, work: Work) -> None:
        """Write in the next turn of the event loop, after the requests that wait for the answer have been woken."""
        if self._cache is not None and self._cache.up:
            asyncio.get_running_loop().call_soon(self._write, self._cache, key, flight, work)

    def _write(self, cache: Cache, key: bytes, flight: Flight, work: Work) -> None:
        start_ns = now_ns()
        try:
            write = cache.put(key, flight.answer(), work.ttl_s, work.stale_for_s)
        except Exception:  # noqa: BLE001  (the requests have their answer, whatever it is: the log has the reason)
            _log.exception("cache.write_failed", request=flight.leader[0].hex())
            self._export.submit(Written(*flight.leader, start_ns, now_ns(), False))
            return
        self._writes.add(write)
        write.add_done_callback(partial(self._written, flight.leader, start_ns, (work.model.name, work.plan.rule)))

    async def close(self, timeout_s: float) -> None:
        """Let the writes finish, for at most `timeout_s`."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=timeout_s)

    def _written(
        self, leader: tuple[bytes, bytes], start_ns: int, of: tuple[str, str], write: asyncio.Future[int]
    ) -> None:
        self._writes.discard(write)
        size = 0 if write.cancelled() else write.result()
        if size:
            self.written[of] += size
        self._export.submit(Written(*leader, start_ns, now_ns(), size > 0))
