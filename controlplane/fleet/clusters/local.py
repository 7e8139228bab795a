"""The local cluster: the processes of `make run`, behind the same port as Kubernetes. Its launcher starts and stops them
(`deploy/local/cluster/replicas.py`), and serves what it has on loopback.
"""

import http.client
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import structlog

from controlplane.fleet.clusters.errors import ClusterError, ForbiddenError, InvalidError, UnreachableError
from controlplane.fleet.clusters.port import (
    HAND,
    SLOTS,
    WEIR,
    ClusterSeen,
    Difference,
    GpusSeen,
    Manifest,
    PoolBinding,
    PoolSeen,
    ReplicaSeen,
)
from controlplane.fleet.core.local_cluster import (
    POOLS_PATH,
    LocalPool,
    LocalReplica,
    LocalState,
    Refusal,
    RemovalRequest,
    ScaleRequest,
)

log = structlog.get_logger(__name__)

CALL_TIMEOUT_S = 5.0
CONFIRM_EVERY_S = 1.0  # changes arrive at once; this is how often the launcher confirms that there are none
RETRY_S = 0.25
NO_LAUNCHER = "No launcher runs here: start Weir with `make run`, or disable the cluster."


class LocalCluster:
    """Watches the launcher at `url` in a thread of its own, from the first `bind` on, until `close`. An empty `url` is no launcher.

    One controller leads on this machine, so nothing fences former leaders here, and a count is set whatever it was.
    """

    def __init__(self, name: str, url: str, token: str) -> None:
        self.name = name
        self._host = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._lock = threading.Lock()
        self._bindings: tuple[PoolBinding, ...] = ()
        self._state: LocalState | None = None
        self._confirmed_s = 0.0  # monotonic
        self._seen_ms: int | None = None
        self._problem = "The launcher has not answered yet." if url else NO_LAUNCHER
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"cluster-{name}", daemon=True)

    def bind(self, pools: Sequence[PoolBinding]) -> None:
        with self._lock:
            self._bindings = tuple(pools)
            if self._host and not self._thread.is_alive() and not self._closing.is_set():
                self._thread.start()

    def seen(self) -> ClusterSeen:
        with self._lock:
            state, bindings = self._state, self._bindings
            if state is None or self._seen_ms is None:
                return ClusterSeen(self.name, problem=self._problem)
            return ClusterSeen(
                self.name,
                pools=_pools(state, bindings),
                seen_ms=self._seen_ms,
                age_ms=round((time.monotonic() - self._confirmed_s) * 1e3),
                problem=self._problem,
                gpus={SLOTS: GpusSeen(allocatable=state.slots, requested=_taken(state))},
                watching=not self._problem,
            )

    def claim(self, generation: int, pools: Collection[str]) -> None:
        """Nothing: former leaders are not refused here."""

    def fences(self) -> Mapping[str, int]:
        return {}

    def scale(self, pool: str, replicas: int, *, token: str, generation: int) -> str:
        self._put(pool, "scale", ScaleRequest(replicas=replicas, by=WEIR))
        return ""

    def prefer_removal(self, pool: str, replicas: Sequence[str], *, generation: int) -> None:
        self._put(pool, "removal", RemovalRequest(replicas=tuple(replicas)))

    def raise_floor(self, pool: str, min_replicas: int, *, generation: int) -> None:
        raise InvalidError(
            f"Pool {pool} has no HorizontalPodAutoscaler: cluster {self.name} is this machine's processes."
        )

    def publish(self, document: bytes, *, generation: int) -> None:
        """Nothing: the gateways of this machine read the snapshot's file."""

    def apply(self, manifests: Sequence[Manifest], *, dry_run: bool, adopt: bool = False) -> list[Difference]:
        raise InvalidError(
            f"Cluster {self.name} takes no manifests: it is this machine's processes. Apply them to a Kubernetes cluster."
        )

    def close(self) -> None:
        """The thread ends with the launcher's next answer."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.is_set():
            since = self._state.version if self._state else ""
            query = urlencode({"since": since, "wait_s": CONFIRM_EVERY_S})
            try:
                state = self._call("GET", f"{POOLS_PATH}?{query}")
            except ClusterError as error:
                self._note(None, str(error))
                self._closing.wait(RETRY_S)
            else:
                self._note(state, "")

    def _note(self, state: LocalState | None, problem: str) -> None:
        with self._lock:
            changed = bool(problem) != bool(self._problem)
            if state is not None:
                self._state, self._confirmed_s, self._seen_ms = state, time.monotonic(), time.time_ns() // 1_000_000
            self._problem = problem
        if changed and problem:
            log.warning("cluster.lost", cluster=self.name, reason=problem)
        elif changed:
            log.info("cluster.watched", cluster=self.name)

    def _put(self, pool: str, what: str, request: msgspec.Struct) -> None:
        workload = next((binding.workload for binding in self._bindings if binding.pool == pool), pool)
        self._call("PUT", f"{POOLS_PATH}/{quote(workload, safe='')}/{what}", msgspec.json.encode(request))

    def _call(self, method: str, path: str, body: bytes = b"") -> LocalState:
        if not self._host:
            raise InvalidError(NO_LAUNCHER)
        connection = http.client.HTTPConnection(self._host, timeout=CALL_TIMEOUT_S)
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            status, text = response.status, response.read()
            if status == HTTPStatus.OK:
                return msgspec.json.decode(text, type=LocalState)
            message = msgspec.json.decode(text, type=Refusal).message
            raise ForbiddenError(message) if status == HTTPStatus.UNAUTHORIZED else InvalidError(message)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UnreachableError(f"The launcher at {self._host} does not answer ({reason}).") from None
        except msgspec.DecodeError as error:
            raise UnreachableError(f"What answers at {self._host} is not this launcher: {error}.") from None
        finally:
            connection.close()


def _taken(state: LocalState) -> int:
    return sum(replica.state != "pending" for pool in state.pools for replica in pool.replicas)


def _pools(state: LocalState, bindings: Sequence[PoolBinding]) -> dict[str, PoolSeen]:
    by_name = {pool.name: pool for pool in state.pools}
    return {binding.pool: _pool(binding, by_name.get(binding.workload)) for binding in bindings}


def _pool(binding: PoolBinding, pool: LocalPool | None) -> PoolSeen:
    if pool is None:
        return PoolSeen(binding.pool, problem=f"The launcher starts no replicas of {binding.workload}.")
    return PoolSeen(
        binding.pool,
        wanted=pool.wanted,
        replicas=tuple(_replica(binding, replica) for replica in pool.replicas),
        owner_of_count=WEIR if pool.set_by in (WEIR, "launcher") else HAND,
        count_set_by="" if pool.set_by == "launcher" else pool.set_by,  # its start is no hand that takes a count away
    )


def _replica(binding: PoolBinding, replica: LocalReplica) -> ReplicaSeen:
    pending = replica.state == "pending"
    return ReplicaSeen(
        replica.name,
        binding.pool,
        replica.grpc if binding.protocol == "triton" else replica.url,
        replica.created_ms,
        ready=replica.state == "ready",
        terminating=replica.state == "ending",
        http=replica.http,
        metrics=replica.metrics,
        pending_reason=replica.problem if pending else "",
        pending_since_ms=replica.created_ms if pending else None,
    )
