"""The pools as this process sees them: channels, who is in flight where, and who is well. It follows the snapshot."""

import asyncio
import itertools

import structlog

from inference.admission import Admission
from inference.backends.triton import TritonModel
from inference.grpc import Channel, GrpcError, Status
from inference.routing import Health, choose_replica
from inference.snapshot import Pool, Snapshot

_log = structlog.get_logger()
_HUNG_AFTER = 3  # probes without an answer until the connection itself is given up
_RETIRE_LOOK_S = 0.05


class Replica:
    """One replica of a pool. `served` counts the requests sent to it since it last became ready."""

    def __init__(self, pool: str, name: str, model: TritonModel) -> None:
        self.pool = pool
        self.name = name
        self.model = model
        self.in_flight = 0
        self.served = 0
        self.health = Health()
        self._doubt = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def failed(self, reason: str) -> None:
        """A call could not reach it: no more calls until a probe has."""
        if self.health.state != "down":
            _log.warning("replica.down", pool=self.pool, replica=self.name, reason=reason)
        self.health.failed()
        self._doubt.set()

    def doubted(self) -> None:
        """It refused a call: ask it now whether it is ready."""
        self._doubt.set()

    def start(self, interval_s: float, timeout_s: float) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(interval_s, timeout_s))

    def stop(self) -> None:
        """No more probes. Requests in flight go on."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self, interval_s: float, timeout_s: float) -> None:
        while True:
            await self._probe(timeout_s)
            self._doubt.clear()
            try:
                async with asyncio.timeout(self.health.next_probe_s(interval_s)):
                    await self._doubt.wait()
                if self.health.state == "down":
                    await asyncio.sleep(self.health.next_probe_s(interval_s))
            except TimeoutError:
                pass

    async def _probe(self, timeout_s: float) -> None:
        try:
            ready, reason = await self.model.ready(timeout_s), "its model is not ready"
        except GrpcError as error:
            ready, reason = False, str(error)
            if error.status is Status.DEADLINE_EXCEEDED and self.health.failures >= _HUNG_AFTER:
                self.model.channel.disconnect()
        if ready:
            if self.health.state != "up":
                _log.info("replica.up", pool=self.pool, replica=self.name)
                self.served = 0
            self.health.answered()
        else:
            if self.health.state != "down":
                _log.warning("replica.down", pool=self.pool, replica=self.name, reason=reason)
            self.health.failed()


class PoolState:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.replicas: list[Replica] = []
        self.admission = Admission(pool.max_concurrency, pool.max_queue)
        self.users = 0  # requests that may still ask this pool, as it was in their snapshot, for a replica
        self._turn = itertools.count()

    @property
    def available(self) -> bool:
        return any(replica.health.state != "down" for replica in self.replicas)

    @property
    def in_flight(self) -> int:
        return self.admission.in_flight

    def choose(self, tried: list[Replica]) -> Replica | None:
        return choose_replica(self.replicas, tried, next(self._turn))


class Fleet:
    """`probe_interval_s` and `probe_timeout_s` are settings of the process. `swap` follows a new snapshot; what stays
    keeps its state.
    """

    def __init__(self, probe_interval_s: float, probe_timeout_s: float) -> None:
        self._interval_s, self._timeout_s = probe_interval_s, probe_timeout_s
        self.pools: dict[str, PoolState] = {}
        self._channels: dict[str, Channel] = {}
        self._replicas: dict[tuple[str, str, str, str, str], Replica] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    def swap(self, snapshot: Snapshot) -> dict[str, PoolState]:
        """The pools of `snapshot`. Replicas it no longer names get no more requests, finish those they have, and are
        let go.
        """
        pools: dict[str, PoolState] = {}
        replicas: dict[tuple[str, str, str, str, str], Replica] = {}
        for pool in snapshot.pools:
            old = self.pools.get(pool.name)
            state = PoolState(pool)
            if old is not None:
                state.admission = old.admission
                state.admission.resize(pool.max_concurrency, pool.max_queue)
            for endpoint in pool.endpoints:
                key = (pool.name, endpoint.replica, endpoint.grpc, pool.model_name, pool.model_version)
                replica = self._replicas.get(key)
                if replica is None:
                    channel = self._channels.setdefault(endpoint.grpc, Channel(endpoint.grpc, self._timeout_s))
                    replica = Replica(
                        pool.name, endpoint.replica, TritonModel(channel, pool.model_name, pool.model_version)
                    )
                    replica.start(self._interval_s, self._timeout_s)
                replicas[key] = replica
                state.replicas.append(replica)
            pools[pool.name] = state
        for key in self._replicas.keys() - replicas.keys():
            self._replicas[key].stop()
        gone = [self._channels.pop(address) for address in self._channels.keys() - {key[2] for key in replicas}]
        if gone:
            task = asyncio.get_running_loop().create_task(self._retire(gone, list(self.pools.values())))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        self.pools, self._replicas = pools, replicas
        return pools

    @staticmethod
    async def _retire(channels: list[Channel], states: list[PoolState]) -> None:
        """Close channels once nobody who knew of them is left."""
        while any(state.users for state in states):  # noqa: ASYNC110  (rare, and in no hurry)
            await asyncio.sleep(_RETIRE_LOOK_S)
        for channel in channels:
            channel.close()

    def close(self) -> None:
        for replica in self._replicas.values():
            replica.stop()
        for channel in self._channels.values():
            channel.close()
