"""The local cluster: pools of replicas that start and stop while everything else runs.

Any thread may read it and ask for changes (`api.py`). The supervisor's thread carries them out, because the kernel ends a process
with the thread that started it.
"""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.fleet.core.local_cluster import (
    LocalPool,
    LocalReplica,
    LocalState,
    RemovalRequest,
    ReplicaState,
    ScaleRequest,
)
from deploy.local.supervisor import Part, Standing, State, Supervisor

KEPT_LOGS = 5  # of replicas of a pool that have ended


@dataclass(frozen=True, slots=True)
class Server:
    """A replica's process, and its addresses by kind (`grpc`, `http`, `metrics`, `url`)."""

    part: Part
    addresses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """`replicas` run at the start. `make` plans the process of a replica of this name; OSError means that it cannot now."""

    name: str
    replicas: int
    make: Callable[[str], Server]


class UnknownNameError(Exception):
    """Permanent: the cluster has no such pool, or the pool no such replica. The message has the remedy."""


@dataclass(slots=True)
class _Replica:
    name: str
    created_ms: int
    server: Server | None = None  # None: it is pending
    state: ReplicaState = "pending"
    restarts: int = 0
    removal_cost: int = 0
    problem: str = ""

    def as_seen(self) -> LocalReplica:
        return LocalReplica(
            name=self.name,
            state=self.state,
            created_ms=self.created_ms,
            restarts=self.restarts,
            problem=self.problem,
            **(self.server.addresses if self.server else {}),
        )

    @property
    def keeps(self) -> tuple[int, int, int]:
        """The higher, the longer it stays: as Kubernetes chooses among pods (pkg/controller/controller_utils.go,
        ActivePodsWithRanks): those without a process first, then those that are not ready, then by cost, then the newest.
        """
        rank = {"pending": 0, "starting": 1, "ready": 2, "ending": 0}[self.state]
        return rank, self.removal_cost, -self.created_ms


@dataclass(slots=True)
class _Pool:
    plan: PoolPlan
    wanted: int
    set_by: str = "launcher"
    made: int = 0  # replicas so far: names are not used twice
    replicas: list[_Replica] = field(default_factory=list)

    @property
    def staying(self) -> list[_Replica]:
        return [replica for replica in self.replicas if replica.state != "ending"]

    def add(self, now_ms: int) -> _Replica:
        replica = _Replica(f"{self.plan.name}-{self.made}", now_ms)
        self.made += 1
        self.replicas.append(replica)
        return replica


class LocalCluster:
    """At most `slots` replicas of all pools have a process; further ones are pending."""

    def __init__(self, pools: Sequence[PoolPlan], slots: int, logs: Path) -> None:
        self._run = secrets.token_hex(4)  # versions of an earlier launcher fit nothing
        self._logs = logs
        self._slots = slots
        self._version = 0
        self._changed = threading.Condition()
        now_ms = _now_ms()
        self._pools = {pool.name: _Pool(pool, pool.replicas) for pool in pools}
        for pool in self._pools.values():
            for _ in range(pool.wanted):
                self._place(pool.add(now_ms), pool)

    def parts(self) -> list[Part]:
        """The replicas' processes so far."""
        with self._changed:
            return [replica.server.part for pool in self._pools.values() for replica in pool.replicas if replica.server]

    def state(self) -> LocalState:
        with self._changed:
            return LocalState(
                version=self._version_name(),
                slots=self._slots,
                pools=tuple(
                    LocalPool(
                        name=name,
                        wanted=pool.wanted,
                        set_by=pool.set_by,
                        replicas=tuple(replica.as_seen() for replica in pool.replicas),
                    )
                    for name, pool in self._pools.items()
                ),
            )

    def wait(self, since: str, timeout_s: float) -> LocalState:
        """The state, once its version is another than `since`, or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._version_name() != since, timeout_s)
        return self.state()

    def scale(self, name: str, request: ScaleRequest) -> None:
        """Raises UnknownNameError."""
        with self._changed:
            pool = self._pool(name)
            pool.wanted, pool.set_by = request.replicas, request.by
            self._change()

    def prefer_removal(self, name: str, request: RemovalRequest) -> None:
        """Raises UnknownNameError."""
        with self._changed:
            pool = self._pool(name)
            present = {replica.name for replica in pool.replicas}
            if missing := [replica for replica in request.replicas if replica not in present]:
                raise UnknownNameError(f"pool {name} has no replica {missing[0]}: read the pool again")
            for replica in pool.replicas:
                replica.removal_cost = -1 if replica.name in request.replicas else 0

    def keep(self, supervisor: Supervisor) -> None:
        """Start and end processes until each pool has what it wants, and note how they stand. For the supervisor's thread."""
        with self._changed:
            before = self._seen()
            for pool in self._pools.values():
                self._note(pool, supervisor)
                self._remove(pool, supervisor)
            for pool in self._pools.values():
                self._add(pool, supervisor)
            if self._seen() != before:
                self._change()

    def _note(self, pool: _Pool, supervisor: Supervisor) -> None:
        for replica in list(pool.replicas):
            if replica.server is None:
                continue
            standing = supervisor.standing(replica.server.part.name)
            if standing is None:
                pool.replicas.remove(replica)
                self._forget_logs(pool)
            elif replica.state != "ending":
                _note_standing(replica, standing)

    def _remove(self, pool: _Pool, supervisor: Supervisor) -> None:
        for replica in sorted(pool.staying, key=lambda replica: replica.keeps)[
            : max(len(pool.staying) - pool.wanted, 0)
        ]:
            if replica.server is None:
                pool.replicas.remove(replica)
            else:
                replica.state = "ending"
                supervisor.remove(replica.server.part.name)

    def _add(self, pool: _Pool, supervisor: Supervisor) -> None:
        for _ in range(pool.wanted - len(pool.staying)):
            pool.add(_now_ms())
        for replica in pool.replicas:
            if replica.server is None and self._place(replica, pool):
                assert replica.server is not None
                supervisor.add(replica.server.part)

    def _place(self, replica: _Replica, pool: _Pool) -> bool:
        """Give it a slot and plan its process, where there is a slot."""
        if sum(other.server is not None for each in self._pools.values() for other in each.replicas) >= self._slots:
            replica.problem = (
                f"all {self._slots} slots of this machine are taken: scale another pool down, or set WEIR_REPLICA_SLOTS"
            )
            return False
        try:
            replica.server = pool.plan.make(replica.name)
        except OSError as error:
            replica.problem = f"it cannot be started ({error.strerror or error}): it is tried again"
            return False
        replica.state, replica.problem = "starting", ""
        return True

    def _forget_logs(self, pool: _Pool) -> None:
        present = {f"{replica.name}.log" for replica in pool.replicas}
        logs = [log for log in self._logs.glob(f"{pool.plan.name}-*.log") if log.name not in present]
        for log in sorted(logs, key=lambda log: log.stat().st_mtime)[: -KEPT_LOGS or None]:
            log.unlink(missing_ok=True)
            log.with_suffix(".log.1").unlink(missing_ok=True)

    def _seen(self) -> list[LocalReplica]:
        return [replica.as_seen() for pool in self._pools.values() for replica in pool.replicas]

    def _pool(self, name: str) -> _Pool:
        if name not in self._pools:
            raise UnknownNameError(f"there is no pool {name} in the local cluster: it has {', '.join(self._pools)}")
        return self._pools[name]

    def _version_name(self) -> str:
        return f"{self._run}-{self._version}"

    def _change(self) -> None:
        self._version += 1
        self._changed.notify_all()


def _note_standing(replica: _Replica, standing: Standing) -> None:
    is_ready = standing.state is State.READY
    replica.state = "ready" if is_ready else "starting"
    replica.restarts = standing.restarts
    replica.problem = (
        f"it has ended {standing.restarts} times, its log says why" if standing.restarts and not is_ready else ""
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
