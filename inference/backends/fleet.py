"""Keeps the pools of the snapshot as this process sees them: their channels, their requests in flight, and the health
of their replicas.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable

import structlog

from inference.backends.triton import TritonModel
from inference.core.routing import Health, choose_replica
from inference.core.snapshot import Pool, Snapshot
from inference.request.admit import Admission
from inference.tasks import keep
from inference.wires.grpc import Channel, GrpcError, Status

_log = structlog.get_logger()
_MODEL_TYPES = {"triton": TritonModel}  # by the pool's protocol


class Replica:
    """One replica of a pool. `served` counts the requests sent to it since it last became ready."""

    def __init__(self, pool: str, name: str, model: TritonModel) -> None:
        self.pool = pool
        self.name = name
        self.model = model
        self.in_flight = 0
        self.served = 0
        self.health = Health()
        self._arrivals = 0  # of its channel, when probes began to be slow
        self._probe_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether its server is at its limit of calls, so that another call would wait."""
        return self.model.channel.full

    def failed(self, reason: str) -> None:
        """A call could not reach it. It gets no more calls until a probe succeeds."""
        if self.health.state != "down":
            _log.warning("replica.went_down", pool=self.pool, replica=self.name, reason=reason)
        self.health.failed()
        self._probe_wanted.set()

    def probe_soon(self) -> None:
        """It refused a call, so probe it now."""
        self._probe_wanted.set()

    def start(self, interval_s: float, timeout_s: float) -> None:
        self._task = keep(f"probe {self.pool}/{self.name}", lambda: self._watch(interval_s, timeout_s))

    def stop(self) -> None:
        """No more probes. Requests in flight go on."""
        if self._task is not None:
            self._task.cancel()

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
        channel, health = self.model.channel, self.health
        before = health.state
        try:
            ready, reason = await self.model.ready(timeout_s), "its model is not ready"
        except GrpcError as error:
            if error.status is Status.DEADLINE_EXCEEDED:
                self._probe_delayed(channel)
                return
            ready, reason = False, str(error)
        if ready:
            health.answered()
            if before != "up":
                _log.info("replica.came_up", pool=self.pool, replica=self.name)
                self.served = 0
        else:
            health.failed()
            if before != "down":
                _log.warning("replica.went_down", pool=self.pool, replica=self.name, reason=reason)

    def _probe_delayed(self, channel: Channel) -> None:
        """After several slow probes in a row the replica is down. Its connection, which other pools may share, is dropped
        only if nothing arrived over it meanwhile, not even the answer to a ping: a long prefill is silent, a probe of another
        model may be seconds away, and only a server that hangs leaves a ping unanswered.
        """
        health, before = self.health, self.health.state
        if not health.slow:
            self._arrivals = channel.arrivals
        health.delayed()
        if health.slow < Health.SLOW_PROBES:
            channel.ping()
            return
        if before != "down":
            reason = f"{health.slow} probes in a row were not answered in time"
            _log.warning("replica.went_down", pool=self.pool, replica=self.name, reason=reason)
        if channel.arrivals == self._arrivals:
            channel.disconnect()
        self._arrivals = channel.arrivals
        channel.ping()


class PoolState:
    """A pool of one snapshot. A request holds it from when it has chosen it until it has ended. `unused` is called once a
    newer snapshot has replaced the pool and no request holds it.
    """

    def __init__(self, pool: Pool, unused: Callable[["PoolState"], None]) -> None:
        self.pool = pool
        self.replicas: list[Replica] = []
        self.admission = Admission(pool.max_concurrency, pool.max_queue)
        self._users = 0
        self._replaced = False
        self._unused = unused
        self._turn = itertools.count()

    @property
    def available(self) -> bool:
        return any(replica.health.state != "down" for replica in self.replicas)

    @property
    def replicas_up(self) -> int:
        """Replicas whose last probe was answered."""
        return sum(replica.health.state == "up" for replica in self.replicas)

    @property
    def in_flight(self) -> int:
        return self.admission.in_flight

    def choose(self, tried: list[Replica]) -> Replica | None:
        return choose_replica(self.replicas, tried, next(self._turn), time.monotonic())

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

    def __init__(self, probe_interval_s: float, probe_timeout_s: float) -> None:
        self._interval_s, self._timeout_s = probe_interval_s, probe_timeout_s
        self.pools: dict[str, PoolState] = {}
        self._channels: dict[str, Channel] = {}
        self._uses: Counter[str] = Counter()  # replicas of pools, also of older snapshots, that need the channel
        self._replicas: dict[tuple[str, str, str, str, str], Replica] = {}

    def swap(self, snapshot: Snapshot) -> dict[str, PoolState]:
        """The pools of `snapshot`, whose addresses have been checked. Replicas that it no longer names get no more requests,
        finish those in flight, and are dropped.
        """
        before, pools = self.pools, dict[str, PoolState]()
        replicas: dict[tuple[str, str, str, str, str], Replica] = {}
        for pool in snapshot.pools:
            old = before.get(pool.name)
            state = PoolState(pool, self._let_go)
            if old is not None:
                state.admission = old.admission
                state.admission.resize(pool.max_concurrency, pool.max_queue)
            for endpoint in pool.endpoints:
                key = (pool.name, endpoint.replica, endpoint.grpc, pool.model_name, pool.model_version)
                replica = replicas[key] = self._replicas.get(key) or self._begin(_MODEL_TYPES[pool.protocol], *key)
                state.replicas.append(replica)
                self._uses[endpoint.grpc] += 1
            pools[pool.name] = state
        for key in self._replicas.keys() - replicas.keys():
            self._replicas[key].stop()
        self.pools, self._replicas = pools, replicas
        for state in before.values():
            state.replace()
        return pools

    def _begin(
        self, model_type: type[TritonModel], pool: str, name: str, address: str, model_name: str, model_version: str
    ) -> Replica:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = Channel(address, self._timeout_s)
        replica = Replica(pool, name, model_type(channel, model_name, model_version))
        replica.start(self._interval_s, self._timeout_s)
        return replica

    def _let_go(self, state: PoolState) -> None:
        """Close the channels of `state` that no other pool uses."""
        for replica in state.replicas:
            address = replica.model.channel.target
            self._uses[address] -= 1
            if not self._uses[address]:
                del self._uses[address]
                self._channels.pop(address).close()

    def close(self) -> None:
        for replica in self._replicas.values():
            replica.stop()
        for channel in self._channels.values():
            channel.close()
