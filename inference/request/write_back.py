"""Stores answers in the cache after the requests have them."""

import asyncio

import structlog

from inference.core.snapshot import CacheRule
from inference.observability.span_export import SpanExport
from inference.observability.spans import Written, now_ns
from inference.request.cache import Cache, StoredAnswer
from inference.request.coalesce import Flight

_log = structlog.get_logger()


class WriteBack:
    """No request waits for a write. Each write has a span of its own."""

    def __init__(self, cache: Cache | None, export: SpanExport) -> None:
        self._cache = cache
        self._export = export
        self._writes: set[asyncio.Task[None]] = set()

    def start(self, key: bytes, flight: Flight, rule: CacheRule) -> None:
        if self._cache is not None and self._cache.up:
            task = asyncio.get_running_loop().create_task(self._write(self._cache, key, flight, rule.ttl_s))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def close(self, timeout_s: float) -> None:
        """Let the writes finish, for at most `timeout_s`."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=timeout_s)

    async def _write(self, cache: Cache, key: bytes, flight: Flight, ttl_s: int) -> None:
        start_ns = now_ns()
        answer = StoredAnswer("".join(flight.texts), flight.finish_reason, flight.prompt_tokens, flight.output_tokens)
        try:
            stored = await cache.put(key, answer, ttl_s)
        except Exception:  # noqa: BLE001  (nobody awaits this task, so it logs the reason itself)
            _log.exception("cache.write_failed", request=flight.leader[0].hex())
            stored = False
        self._export.submit(Written(*flight.leader, start_ns, now_ns(), stored))
