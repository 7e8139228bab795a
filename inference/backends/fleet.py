"""Keeps the pools of the snapshot as this process sees them: their links, their requests in flight, and the health
of their replicas.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec
import structlog

from inference.backends.metrics_page import MetricsPages, follow_load
from inference.backends.port import Backend, Connector, Detected, Link
from inference.backends.warm_up import WarmUps
from inference.contract.server_metrics import ServerLoad
from inference.contract.snapshot import Endpoint, Pool, Snapshot
from inference.core.backend_errors import BackendError, FailedError
from inference.core.capabilities import Capabilities, Offers
from inference.core.pool_tally import PoolTally
from inference.core.routing.balance import Balancer, Call
from inference.core.routing.candidates import places
from inference.core.routing.health import Health
from inference.core.routing.load import ReplicaLoad
from inference.core.routing.need import Need
from inference.core.routing.prefix import PrefixLru, stable_hash
from inference.core.routing.retry import RetryBudget
from inference.core.routing.warming import Warming
from inference.request.admit import Admission
from inference.tasks import keep

_log = structlog.get_logger()
STALE_AFTER = 4
"""Intervals after which what a server said of its load counts as unknown."""


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
        self.warm_ups: WarmUps | None = None  # of its pool
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


class PoolState:
    """A pool of one snapshot. A request holds it from when it has chosen it until it has ended. `unused` is called once a
    newer snapshot has replaced the pool and no request holds it.
    """

    def __init__(self, pool: Pool, stale_s: float, unused: Callable[["PoolState"], None]) -> None:
        self.pool = pool
        self.replicas: list[Replica] = []
        self.admission = Admission(pool.max_concurrency, pool.max_queue)
        self.retries = RetryBudget()
        self.tally = PoolTally()
        self.warm_ups = WarmUps(self.replicas)
        self.balancer = Balancer(stale_s)
        self._offers = Offers()
        self._users = 0
        self._replaced = False
        self._newer: PoolState | None = None
        self._unused = unused

    def inherit(self, old: "PoolState") -> None:
        """Go on where the pool of the same name in the snapshot before was. `fit` afterwards."""
        if msgspec.structs.replace(old.pool, endpoints=self.pool.endpoints) == self.pool:
            old._newer = self
        self.admission, self.retries, self.balancer = old.admission, old.retries, old.balancer
        self.tally, self.warm_ups = old.tally, old.warm_ups  # requests that hold the old pool go on counting in them

    def fit(self) -> None:
        """Have as many places as its replicas can work on now."""
        pool, admission = self.pool, self.admission
        most = places(pool.max_concurrency, pool.replica_concurrency, self.replicas, time.monotonic())
        if (most, pool.max_queue) != (admission.max_in_flight, admission.max_waiting):
            admission.resize(most, pool.max_queue)

    @property
    def newest(self) -> "PoolState":
        """The same pool in the newest snapshot where one of its replicas is up, as long as nothing but its replicas has changed."""
        newest, state = self, self._newer
        while state is not None:
            newest, state = state if state.replicas_up else newest, state._newer
        return newest

    @property
    def available(self) -> bool:
        """Whether a new request may be sent to it."""
        for replica in self.replicas:  # noqa: SIM110  (for each request; a generator costs twice as much)
            if replica.health.state != "down" and not replica.leaving:
                return True
        return False

    @property
    def capabilities(self) -> Capabilities:
        """What each of its servers does with parameters, so that any of them may answer, retry or hedge a request; of no
        replica, anything, because no request will get that far.
        """
        up = [replica.backend.capabilities for replica in self.replicas if replica.health.state != "down"]
        return self._offers.in_common(up or [replica.backend.capabilities for replica in self.replicas])

    @property
    def replicas_up(self) -> int:
        """Replicas whose last probe was answered."""
        return sum(replica.health.state == "up" for replica in self.replicas)

    @property
    def in_flight(self) -> int:
        return self.admission.in_flight

    def choose(self, need: Need, tried: Sequence[Replica]) -> Replica | None:
        """The replica that is expected to answer first, if there is another than those in `tried`."""
        return self.balancer.choose(self.replicas, need, tried, time.monotonic())

    def begin(self, replica: Replica, need: Need) -> Call:
        """A request is sent to `replica`."""
        return self.balancer.begin(replica, need, time.monotonic())

    def hold(self) -> None:
        self._users += 1

    def release(self, _: object = None) -> None:
        """Also as a task's callback."""
        self._users -= 1
        if self._replaced and not self._users:
            self._unused(self)

    def replace(self) -> None:
        """A newer snapshot is in force."""
        self._replaced = True
        if not self._users:
            self._unused(self)


class Fleet:
    """`swap` follows a new snapshot. Pools and replicas that stay keep their state."""

    def __init__(
        self,
        connectors: Mapping[str, Connector],
        probe_interval_s: float,
        probe_timeout_s: float,
        signals_interval_s: float,
        *,
        link_local: bool = False,
    ) -> None:
        self._connectors = connectors  # by the pool's protocol
        self._interval_s, self._timeout_s = probe_interval_s, probe_timeout_s
        self._signals_interval_s = signals_interval_s
        self._pages = MetricsPages(link_local=link_local)
        self.pools: dict[str, PoolState] = {}
        self._links: dict[Hashable, Link] = {}
        self._uses: Counter[Hashable] = Counter()  # replicas of pools, also of older snapshots, that need the link
        self._replicas: dict[Hashable, Replica] = {}

    def swap(self, snapshot: Snapshot) -> dict[str, PoolState]:
        """The pools of `snapshot`, whose addresses have been checked. Replicas that it no longer names get no more requests,
        finish those in flight, and are dropped.
        """
        before, pools = self.pools, dict[str, PoolState]()
        replicas: dict[Hashable, Replica] = {}
        for pool in snapshot.pools:
            old = before.get(pool.name)
            state = PoolState(pool, STALE_AFTER * self._signals_interval_s, self._let_go)
            if old is not None:
                state.inherit(old)
            for endpoint in pool.endpoints:
                key = _identity(pool, endpoint)
                replica = replicas[key] = self._replicas.get(key) or self._begin(pool, endpoint)
                replica.draining, replica.most = endpoint.draining, pool.replica_concurrency
                state.replicas.append(replica)
                replica.warm_ups = state.warm_ups
                self._uses[replica.link_key] += 1
            state.warm_ups.obey(pool.warm_up, state.replicas)
            pools[pool.name] = state
        for key in self._replicas.keys() - replicas.keys():
            self._replicas[key].stop()
        self.pools, self._replicas = pools, replicas
        for state in pools.values():
            state.fit()
            state.admission.reserve(snapshot.tiers)
        for state in before.values():
            state.replace()
        return pools

    def _begin(self, pool: Pool, endpoint: Endpoint) -> Replica:
        connector = self._connectors[pool.protocol]
        key = (pool.protocol, connector.link_key(pool, endpoint))
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = connector.connect(pool, endpoint, self._timeout_s)
        backend = connector.backend(link, pool, endpoint)
        # A Triton's page is not at the address of its models.
        apart = endpoint.metrics and pool.protocol == "triton"
        read_signals = partial(self._pages.signals, endpoint.metrics) if apart else None
        replica = Replica(pool.name, endpoint.replica, backend, key, read_signals, partial(self._fit, pool.name))
        replica.start(self._interval_s, self._timeout_s, self._signals_interval_s)
        return replica

    def _fit(self, pool: str) -> None:
        """A replica of the pool went down, came up, was ejected, or leaves and has answered a request."""
        if (state := self.pools.get(pool)) is not None and state.pool.replica_concurrency:
            state.fit()

    def _let_go(self, state: PoolState) -> None:
        """Close the links of `state` that no other pool uses."""
        for replica in state.replicas:
            key = replica.link_key
            self._uses[key] -= 1
            if not self._uses[key]:
                del self._uses[key]
                self._links.pop(key).close()

    async def close(self) -> None:
        for replica in self._replicas.values():
            replica.stop()
        for link in self._links.values():
            link.close()
        self._pages.close()


def _identity(pool: Pool, endpoint: Endpoint) -> Hashable:
    """What makes a replica another one, which begins anew, when a snapshot changes it."""
    model = (pool.model_name, pool.model_version, pool.signature, pool.mapping, pool.server)
    address = (endpoint.replica, endpoint.grpc, endpoint.url, endpoint.metrics)
    return pool.name, *address, pool.protocol, *model, pool.credential, pool.tls
