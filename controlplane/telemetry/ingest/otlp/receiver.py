"""Takes a body from either transport: checks it, makes it durable, and returns what was refused."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from controlplane.telemetry.ingest.otlp.decode import metrics
from controlplane.telemetry.ingest.sample_intake import Intake
from controlplane.telemetry.ingest.spool.frame import Kind
from controlplane.telemetry.ingest.spool.writer import SpoolFullError, SpoolWriter
from controlplane.telemetry.metrics.batch import Builder

from . import contract
from .contract import Encoding, RefusedError, Signal, Taken
from .decode import export_request
from .decode.from_json import as_protobuf
from .decode.malformed import MalformedError

P = ParamSpec("P")
R = TypeVar("R")

_AT_ONCE_BYTES = 256 * 1024
"""Bodies up to this size are checked on the event loop. A larger one would block all other requests."""


@dataclass
class Counts:
    """Counts since the receiver started."""

    requests: dict[tuple[str, str], int] = field(default_factory=dict)  # by (transport, outcome)
    rejected: dict[str, int] = field(default_factory=dict)  # spans by reason

    def request(self, transport: str, outcome: str) -> None:
        self.requests[transport, outcome] = self.requests.get((transport, outcome), 0) + 1


class Receiver:
    """Accepts requests while fewer than `inflight_bytes` of bodies are in memory, and refuses others at once."""

    def __init__(
        self,
        spool: SpoolWriter,
        *,
        max_body_bytes: int,
        inflight_bytes: int,
        max_series: int = 200_000,
        retention_days: int = 30,
    ) -> None:
        export_request.prepare(reading=False)
        self._spool = spool
        self._retention_ns = retention_days * 86_400 * 10**9
        self.metrics = Intake(spool, max_series=max_series, retention_days=retention_days)
        self.max_body_bytes = max_body_bytes
        self._inflight_bytes, self.inflight = inflight_bytes, 0
        self.counts = Counts()
        self._large = ThreadPoolExecutor(
            1, thread_name_prefix="judge"
        )  # one, so that one large body is parsed at a time

    def close(self) -> None:
        self._large.shutdown(wait=True, cancel_futures=True)

    def admit(self) -> None:
        """Refuse a request that could not be stored before its body is read. Raises RefusedError."""
        if reason := self._spool.refusal():
            raise contract.unavailable(reason, SpoolFullError(reason).retry_after_s)
        if self.inflight >= self._inflight_bytes:
            raise self._overloaded()

    def grow(self, size: int) -> None:
        """Account for `size` more bytes of bodies in memory, negative when they are released. Raises RefusedError above the limit."""
        self.inflight += size
        if size > 0 and self.inflight > self._inflight_bytes:
            raise self._overloaded()

    async def take(self, signal: Signal, encoding: Encoding, body: bytes) -> Taken:
        """Returns once the accepted part would survive a kill. Raises RefusedError."""
        try:
            if signal is Signal.METRICS:
                samples = await self.judged(len(body), self._samples, encoding, body)
                await self.metrics.keep(samples)
                return contract.summary(samples.rejected, "data points")
            received_ns = time.time_ns()
            within = export_request.bounds(received_ns, self._retention_ns)
            if encoding is Encoding.JSON:
                body = await self.judged(len(body), as_protobuf, body)
            rejected = await self.judged(len(body), export_request.check, body, within)
            for reason, count in rejected.items():
                self.counts.rejected[reason] = self.counts.rejected.get(reason, 0) + count
            if body:
                await asyncio.wrap_future(self._spool.append(Kind.TRACES, body, received_ns))
            return contract.summary(rejected)
        except MalformedError as error:
            raise contract.bad_data(str(error)) from error
        except SpoolFullError as full:
            raise contract.unavailable(str(full), full.retry_after_s) from full

    async def judged(self, size: int, judge: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call `judge` for a body of `size` bytes: at once where it is small, otherwise in the thread for large bodies."""
        if size <= _AT_ONCE_BYTES:
            return judge(*arguments, **named)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._large, partial(judge, *arguments, **named))

    def _samples(self, encoding: Encoding, body: bytes) -> Builder:
        builder = self.metrics.builder()
        (metrics.read_json if encoding is Encoding.JSON else metrics.read_protobuf)(body, builder)
        return builder

    def _overloaded(self) -> RefusedError:
        return contract.overloaded(
            f"more than {self._inflight_bytes} bytes are being received at once (WEIR_OTLP_INFLIGHT_BYTES)"
        )
