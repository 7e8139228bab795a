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
from inference.core.backend_errors import BackendError, BusyError, FailedError
from inference.core.routing.health import Health
from inference.core.routing.load import ReplicaLoad
from inference.core.routing.prefix import PrefixLru, stable_hash
from inference.core.routing.warming import Warming
from inference.tasks import keep

_log = structlog.get_logger()
_UNFIT = ("misconfigured", "misfit", "missing", "credential")
"""`error_type` of what the server, or the pool's settings, say about whether it serves at all."""


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
        self._silent_since: int | None = None  # arrivals of its link, when probes began to be slow
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

    def unreached(self, began_s: float, reason: str) -> None:
        """A call that began then could not reach it. A few of these in a row, or of probes, and it gets no more calls."""
        self._failed(began_s, reason)
        self._probe_wanted.set()

    def _failed(self, began_s: float, reason: str, *, unfit: bool = False) -> None:
        health, before = self.health, self.health.state
        health.failed(began_s, time.monotonic(), unfit=unfit)
        self.reason = reason
        if health.state != before:
            self._down_s = time.monotonic()
            _log.warning("replica.went_down", pool=self.pool, replica=self.name, reason=reason)
            self.changed()

    def probe_soon(self) -> None:
        """It refused a call, so probe it now."""
        self._probe_wanted.set()

    def call_answered(self) -> None:
        before = self.health.state
        if self.health.call_answered(time.monotonic()):
            _log.info("replica.readmitted", pool=self.pool, replica=self.name)
            self.changed()
        if self.health.state != before:
            self.changed()

    def call_failed(self, reason: str) -> None:
        """A call failed, though the server could be reached. Too many of these eject it for a while."""
        if self.health.call_failed(time.monotonic()):
            self._was_ejected(reason)

    def call_lost(self, began_s: float, reason: str) -> None:
        """The connection was lost while it had a call that began then."""
        if self.health.call_lost(began_s, time.monotonic()):
            self._was_ejected(reason)
        self.probe_soon()

    def call_busy(self, pause_s: float) -> None:
        """The server had no room, and wants to be left alone for so long, if it says. It is load, and no failure."""
        self.health.call_busy(time.monotonic(), pause_s)
        self.probe_soon()  # its model may be being loaded

    def _was_ejected(self, reason: str) -> None:
        seconds = round(self.health.ejected_until_s - time.monotonic())
        _log.warning("replica.ejected", pool=self.pool, replica=self.name, reason=reason, for_s=seconds)
        self.changed()

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
            await self._probe(timeout_s)
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
        began_s, health = time.monotonic(), self.health
        try:
            ready, reason = await self.backend.ready(timeout_s), "its model is not ready"
            if ready and (health.state != "up" or self.detected is None):
                self.detected = await self.backend.detect(timeout_s)
                ready, reason = not self.detected.misfit, self.detected.misfit
            unfit = not ready
        except TimeoutError:
            self._failed(began_s, f"its probes were not answered within {timeout_s:g} s")
            self._look_at(self.backend.link)
            return
        except BusyError:
            self._silent_since = None
            before = health.state
            health.answered_busy()
            if health.state != before:
                self.changed()
            return
        except BackendError as error:
            error.quote()  # a probe has no prompt that it could repeat
            ready, reason, unfit = False, str(error), error.error_type in _UNFIT
            if isinstance(error, FailedError) and self.detected is None:  # it answers: what is it?
                with suppress(BackendError, TimeoutError):
                    self.detected = await self.backend.detect(timeout_s)
        self._silent_since = None
        if not ready:
            self._failed(began_s, reason, unfit=unfit)
            return
        before = health.state  # only now: a call may have failed meanwhile
        health.answered()
        if before != "up":
            self._came_up()
            self.changed()

    def _look_at(self, link: Link) -> None:
        """A probe was not answered in time. Where no call uses its connections, the next probe makes a new one. Where calls do, other
        pools' too, they are dropped once the replica is down, and only if nothing has arrived since, not even the answer to a
        ping: a long prefill is silent, a probe of another model may be seconds away, and only a server that hangs leaves a
        ping unanswered.
        """
        if self._silent_since is None:
            self._silent_since = link.arrivals
        elif self.health.state == "down":
            if link.arrivals == self._silent_since:
                link.disconnect()
            self._silent_since = link.arrivals
        link.renew()
        link.ping()
