"""A replica of a pool as this process sees it: whether it is up, how busy it is, and who sends it requests."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Protocol

import structlog

from inference.backends.metrics_page import follow_load
from inference.backends.port import Backend, Detected, Link
from inference.contract.server_metrics import ServerLoad
from inference.core.backend_errors import BackendError, FailedError
from inference.core.routing.health import Health
from inference.core.routing.load import ReplicaLoad
from inference.core.routing.prefix import PrefixLru, stable_hash
from inference.core.routing.warming import Warming
from inference.tasks import keep

_log = structlog.get_logger()


class Warmer(Protocol):
    """Who warms the replicas of a pool up."""

    def came_up(self, replica: "Replica", away_s: float) -> None:
        """The replica is ready, and was not for so long."""

    def stop(self, replica: "Replica") -> None:
        """It is no replica of the pool any more."""


class Replica:
    """One replica of a pool. `served` counts the requests sent to it since it last became ready, those of its warm-up too.
    `read_signals` reads what its server says of its load, within a time in seconds, where the backend does not.
    """

    def __init__(
        self,
        pool: str,
        name: str,
        backend: Backend,
        link_key: Hashable,
        read_signals: Callable[[float], Awaitable[ServerLoad]] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.pool = pool
        self.name = name
        self.backend = backend
        self.link_key = link_key
        self.served = 0
        self.draining = False  # it is to end: no new request gets it, and it is probed until it has ended
        self.stopped = False  # a newer snapshot has it no more
        self.most = 0  # requests in flight; 0 is no limit
        self.health = Health()
        self.warming = Warming()
        self.warm_ups: Warmer | None = None  # of its pool
        self.reason = ""  # why it went down last
        self.detected: Detected | None = None  # what it is, as it was found out when it last came up
        self.load = ReplicaLoad()
        self.prefixes = PrefixLru()
        self.home = stable_hash(pool.encode(), name.encode())
        self._read_signals = read_signals or backend.signals
        self.changed = changed  # what its pool takes at a time
        self._arrivals = 0  # of its link, when probes began to be slow
        self._probe_wanted = asyncio.Event()
        self._down_s = time.monotonic()  # when it went down last, or was made
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def in_flight(self) -> int:
        return self.load.own

    @property
    def leaving(self) -> bool:
        """Whether no new request gets it."""
        return self.draining or self.stopped

    @property
    def full(self) -> bool:
        """Whether it is at its limit of requests, or its server at one of calls, so that another call would wait there."""
        return 0 < self.most <= self.load.own or self.backend.link.full

    def failed(self, reason: str) -> None:
        """A call could not reach it. It gets no more calls until a probe succeeds."""
        if self.health.state != "down":
            self._went_down(reason)
        self.health.failed()
        self.reason = reason
        self._probe_wanted.set()
        self.changed()

    def _went_down(self, reason: str) -> None:
        self._down_s = time.monotonic()
        _log.warning("replica.went_down", pool=self.pool, replica=self.name, reason=reason)

    def probe_soon(self) -> None:
        """It refused a call, so probe it now."""
        self._probe_wanted.set()

    def call_answered(self) -> None:
        if self.health.call_answered(time.monotonic()):
            _log.info("replica.readmitted", pool=self.pool, replica=self.name)
            self.changed()

    def call_failed(self, reason: str) -> None:
        """A call failed, though the server could be reached. Too many of these eject it for a while."""
        now_s = time.monotonic()
        if self.health.call_failed(now_s):
            seconds = round(self.health.ejected_until_s - now_s)
            _log.warning("replica.ejected", pool=self.pool, replica=self.name, reason=reason, for_s=seconds)
            self.changed()

    def call_busy(self) -> None:
        """The server had no room. It is load, and no failure."""
        self.health.call_busy(time.monotonic())
        self.probe_soon()  # its model may be being loaded

    def start(self, interval_s: float, timeout_s: float, signals_interval_s: float) -> None:
        name = f"{self.pool}/{self.name}"
        self._tasks = [
            keep(f"probe {name}", lambda: self._watch(interval_s, timeout_s)),
            keep(f"signals {name}", lambda: follow_load(self.load, self._read_signals, signals_interval_s, timeout_s)),
        ]

    def stop(self) -> None:
        """No more probes and requests. Those in flight go on."""
        self.stopped = True
        for task in self._tasks:
            task.cancel()
        if self.warm_ups is not None:
            self.warm_ups.stop(self)

    def _came_up(self) -> None:
        _log.info("replica.came_up", pool=self.pool, replica=self.name)
        self.served = 0
        self.prefixes.clear()
        if self.warm_ups is not None:
            self.warm_ups.came_up(self, time.monotonic() - self._down_s)

    async def _watch(self, interval_s: float, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = self.health.state
            await self._probe(timeout_s)
            if self.health.state != before:
                self.changed()
            probed_s = loop.time()
            self._probe_wanted.clear()
            try:
                async with asyncio.timeout(self.health.next_probe_s(interval_s)):
                    await self._probe_wanted.wait()
                if self.health.state == "down":
                    await asyncio.sleep(self.health.next_probe_s(interval_s))
                else:  # several refusals at once need one probe
                    await asyncio.sleep(probed_s + Health.FIRST_PROBE_S - loop.time())
            except TimeoutError:
                pass

    async def _probe(self, timeout_s: float) -> None:
        health = self.health
        try:
            ready, reason = await self.backend.ready(timeout_s), "its model is not ready"
            if ready and (health.state != "up" or self.detected is None):
                self.detected = await self.backend.detect(timeout_s)
                ready, reason = not self.detected.misfit, self.detected.misfit
        except TimeoutError:
            self._probe_delayed(self.backend.link)
            return
        except BackendError as error:
            ready, reason = False, str(error)
            if isinstance(error, FailedError) and self.detected is None:  # it answers: what is it?
                with suppress(BackendError, TimeoutError):
                    self.detected = await self.backend.detect(timeout_s)
        if not ready:
            self.reason = reason
        before = health.state  # only now: a call may have failed meanwhile
        if ready:
            health.answered()
            if before != "up":
                self._came_up()
        else:
            health.failed()
            if before != "down":
                self._went_down(reason)

    def _probe_delayed(self, link: Link) -> None:
        """After several slow probes in a row the replica is down. Its connection, which other pools may share, is dropped
        only if nothing arrived over it meanwhile, not even the answer to a ping: a long prefill is silent, a probe of another
        model may be seconds away, and only a server that hangs leaves a ping unanswered.
        """
        health, before = self.health, self.health.state
        if not health.slow:
            self._arrivals = link.arrivals
        health.delayed()
        if health.slow < Health.SLOW_PROBES:
            link.ping()
            return
        self.reason = reason = f"{health.slow} probes in a row were not answered in time"
        if before != "down":
            self._went_down(reason)
        if link.arrivals == self._arrivals:
            link.disconnect()
        self._arrivals = link.arrivals
        link.ping()
