"""Keeps the pools of the snapshot as this process sees them: their links, their requests in flight, and the health
of their replicas.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial

import msgspec

from inference.backends.admission import Admission
from inference.backends.metrics_page import MetricsPages
from inference.backends.port import Connector, Link
from inference.backends.replica import Replica
from inference.backends.warm_up import Record, WarmUps, forget
from inference.contract.errors import RetryableError
from inference.contract.snapshot import Endpoint, Pool, Snapshot
from inference.core.capabilities import Capabilities, Offers
from inference.core.pool_tally import PoolTally
from inference.core.routing.balance import Balancer, Call
from inference.core.routing.candidates import places
from inference.core.routing.need import Need
from inference.core.routing.retry import RetryBudget
from inference.core.routing.suspects import Suspects

STALE_AFTER = 4
"""Intervals after which what a server said of its load counts as unknown."""


class PoolState:
    """A pool of one snapshot. A request holds it from when it has chosen it until it has ended. `unused` is called once a
    newer snapshot has replaced the pool and no request holds it. `record` gets the calls of Weir's own.
    """

    def __init__(
        self,
        pool: Pool,
        stale_s: float,
        unused: Callable[["PoolState"], None],
        record: Record = forget,
        suspects: Suspects | None = None,
    ) -> None:
        self.pool = pool
        self.replicas: list[Replica] = []
        self.admission = Admission(pool.max_concurrency, pool.max_queue)
        self.retries = RetryBudget(pool.retries)
        self.suspects = Suspects() if suspects is None else suspects  # of all pools
        self.tally = PoolTally()
        self.warm_ups = WarmUps(self.replicas, record)
        self.balancer = Balancer(stale_s, pool.ejection, pool.model_name)
        self.awaited_ms = 0  # when its first replica is expected; 0 where nobody has said that
        self._offers = Offers()
        self._users = 0
        self._replaced = False
        self._newer: PoolState | None = None
        self._unused: Callable[[PoolState], None] | None = unused

    def inherit(self, old: "PoolState") -> None:
        """Go on where the pool of the same name in the snapshot before was. `fit` afterwards."""
        if msgspec.structs.replace(old.pool, endpoints=self.pool.endpoints) == self.pool:
            old._newer = self
        self.admission, self.retries, self.balancer = old.admission, old.retries, old.balancer
        self.retries.rule, self.balancer.rule = self.pool.retries, self.pool.ejection
        self.balancer.model = self.pool.model_name
        self.tally, self.warm_ups = old.tally, old.warm_ups  # requests that hold the old pool go on counting in them

    def fit(self) -> None:
        """Have as many places as its replicas can work on now."""
        pool, admission = self.pool, self.admission
        each, now_s = pool.replica_concurrency, time.monotonic()
        most = places(pool.max_concurrency, each, self.replicas, now_s, pool.ejection)
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
    def awaited_s(self) -> float | None:
        """How long until its first replica is expected; None where that is not known, or the time is over."""
        left_s = self.awaited_ms / 1_000 - time.time()
        return left_s if left_s > RetryableError.retry_after_s else None

    @property
    def capabilities(self) -> Capabilities:
        """What each of its servers does with parameters, so that any of them may answer, retry or hedge a request; of no
        replica, anything, because no request will get that far.
        """
        up = [replica.backend.capabilities for replica in self.replicas if replica.health.state != "down"]
        return self._offers.in_common(up or [replica.backend.capabilities for replica in self.replicas])

    @property
    def passes(self) -> bool:
        """Whether its servers get requests as they came."""
        return self.replicas[0].backend.passes if self.replicas else self.pool.protocol == "openai"

    @property
    def replicas_up(self) -> int:
        """Replicas whose last probe was answered."""
        return sum(replica.health.state == "up" for replica in self.replicas)

    @property
    def in_flight(self) -> int:
        return self.admission.in_flight

    def room(self, priority: int) -> int:
        """That of `admission`, unless its servers say that requests wait there: then so many, below zero."""
        waiting, room = self.balancer.waiting(self.replicas, time.monotonic()), self.admission.room(priority)
        return min(room, 0) - waiting if waiting else room

    def spare(self, priority: int) -> bool:
        """Whether more than half of its places are free for `priority`, and no request waits at its servers. What these do not say is
        not known, and so not free.
        """
        is_free = 2 * self.admission.room(priority) > self.admission.max_in_flight
        return is_free and self.balancer.idle(self.replicas, time.monotonic())

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
        self._end()

    def replace(self) -> None:
        """A newer snapshot is in force."""
        self._replaced = True
        self._end()

    def _end(self) -> None:
        """Once only: what chose it before it was replaced may still come to hold it, such as a comparison of similar answers."""
        if self._replaced and not self._users and self._unused is not None:
            unused, self._unused = self._unused, None
            unused(self)


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
        record: Record = forget,
    ) -> None:
        self._connectors = connectors  # by the pool's protocol
        self._record = record
        self._interval_s, self._timeout_s = probe_interval_s, probe_timeout_s
        self._signals_interval_s = signals_interval_s
        self._pages = MetricsPages(link_local=link_local)
        self._suspects = Suspects()
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
            stale_s = STALE_AFTER * self._signals_interval_s
            state = PoolState(pool, stale_s, self._let_go, self._record, self._suspects)
            state.awaited_ms = snapshot.overlay.awaited.get(pool.name, 0)
            if old is not None:
                state.inherit(old)
            for endpoint in pool.endpoints:
                key = _identity(pool, endpoint)
                replica = replicas[key] = self._replicas.get(key) or self._begin(pool, endpoint)
                replica.draining, replica.most = endpoint.draining, pool.replica_concurrency
                replica.health.rule = pool.ejection
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
    way = (pool.credential, pool.headers, pool.proxy, pool.tls, pool.salt_prefix_cache)
    return pool.name, *address, pool.protocol, *model, *way, pool.unknown_parameters
