"""The policy engine over a real API server, in real time, with gateways that say what a rehearsal has them say."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import msgspec
import yaml
from kubernetes import client, watch

from controlplane.fleet.clusters.kubernetes.cluster import KubernetesCluster
from controlplane.fleet.clusters.port import GATEWAY
from controlplane.policy.act import journal
from controlplane.policy.engine import Ticked
from controlplane.policy.models import Action
from deploy.local.process import ROOT
from inference.contract.gateway_signals import GatewaySignals, PoolSignals, ReplicaSignals
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.opened import opened
from tests.support.cluster.proxy import Proxy
from tests.support.policy.world import CLUSTER, World
from tests.support.wait import eventually

TICK_S = 0.2
CALL_S = 10
WATCH_S = 30
QUICK = {
    "max": 20,
    "stale_after_s": 10,
    "scale_up": "{max_step: 20}",
    "scale_down": "{stabilisation_s: 1, cooldown_s: 0, max_step: 20}",
}


@dataclass
class RealWorld(World):
    """`cluster` of the world in memory is not used. A tick takes TICK_S."""

    real: KubernetesCluster = None  # type: ignore[assignment]
    last_ms: int = 0
    faults: set[str] = field(default_factory=set)
    tiers: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Requests/s of an API tier and the cores that are busy with them, by its Deployment; its gateways share both."""
    used: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Requests and seconds of CPU since its start, by gateway."""
    passed_s: float = 0.0
    last: Ticked = field(default_factory=Ticked)

    def __post_init__(self) -> None:
        self.wrap = lambda _: self.real
        super().__post_init__()

    def listen(self, seconds: int = 1) -> None:
        rates, self.passed_s = self.rps, (self.now_ms - self.last_ms) / 1000 if self.last_ms else 0.0
        self.last_ms = self.now_ms
        self.rps = {pool: rps * self.passed_s for pool, rps in rates.items()}
        super().listen(1)
        self.rps = rates

    def answers(self, signals: GatewaySignals) -> dict[str, GatewaySignals | str]:
        """Of one gateway that is in no cluster, and of those that the cluster shows."""
        said = super().answers(signals)
        for tier, (rps, cores) in self.tiers.items():
            seen = self.real.seen().pools.get(f"{GATEWAY}{tier}")
            ready = [replica for replica in seen.replicas if replica.ready and not replica.terminating] if seen else []
            urls = {replica.address.removesuffix("/v1") for replica in ready}  # hollow pods have a single address
            for url in urls:
                requests, cpu_s = self.used.get(url, (0.0, 0.0))
                requests += rps * self.passed_s / len(urls)
                cpu_s += cores * self.passed_s / len(ready)
                self.used[url] = requests, cpu_s
                said[url] = msgspec.structs.replace(signals, requests=int(requests), cpu_s=cpu_s, pools={}, models={})
        return said

    def _pool(self, pool: str) -> PoolSignals:
        seen = self.real.seen().pools.get(pool)
        names = [replica.name for replica in seen.replicas if replica.ready] if seen else []
        replicas = {name: ReplicaSignals(in_flight=self.in_flight.get(name, 0), up=True, age_s=0.1) for name in names}
        total = int(self.totals[pool])
        return PoolSignals(arrived=total, answered=total, replicas=replicas)

    def tick(self, seconds: int = 1, every_s: int = 1) -> Ticked:
        """One tick now, and its result."""
        time.sleep(TICK_S)
        self.now_ms = time.time_ns() // 1_000_000 - 1000
        ticked = super().tick(1)
        self.faults |= {fault.kind for fault in ticked.faults}
        return ticked

    def until(self, holds: Callable[[], bool], within_s: float = 30.0) -> float:
        """Tick until it holds. How long that took, s; more than `within_s` fails."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < within_s, f"not within {within_s:g} s: {self.last}, {_actions()}"
            self.last = self.tick()
        return time.monotonic() - began

    def settled(self, pool: str, count: int) -> bool:
        """Whether the pool has so many replicas, all ready, and no action is under way."""
        seen = self.real.seen().pools.get(pool)
        if seen is None or seen.wanted != count or journal.any_undone():
            return False
        return len(seen.replicas) == count == sum(replica.ready for replica in seen.replicas)

    def next_leader(self) -> None:
        """The process is no more, and another one takes over."""
        self.generation += 1
        self.new_engine()


class Counts:
    """Every count that a Deployment of the namespace has had, as another client's watch sees it, from the first on."""

    def __init__(self, namespace: Namespace) -> None:
        self.seen: list[tuple[str, int]] = []
        self._failure: Exception | None = None
        self._watch = watch.Watch()
        self._namespace = namespace
        self._thread = Thread(target=self._run, daemon=True)
        self._ended = False
        self._thread.start()
        eventually(lambda: bool(self.seen), lambda: f"a first count; the watch: {self._failure!r}")

    def of(self, workload: str) -> list[int]:
        """Without repetitions."""
        counts: list[int] = []
        for name, count in list(self.seen):
            if name == workload and counts[-1:] != [count]:
                counts.append(count)
        return counts

    def clear(self) -> None:
        """Forget all but the present counts."""
        last = dict(self.seen)
        self.seen = list(last.items())

    def close(self) -> None:
        self._ended = True
        self._watch.stop()

    def _run(self) -> None:
        while not self._ended:
            try:
                self._follow(client.AppsV1Api(self._namespace.api))
            except Exception as error:  # noqa: BLE001  (the API server is ended on purpose)
                self._failure = error
                time.sleep(0.05)

    def _follow(self, apps: client.AppsV1Api) -> None:
        """List, and watch from there. A server that says nothing is asked again: it may be one that is no more."""
        namespace = self._namespace.name
        listed = apps.list_namespaced_deployment(namespace, _request_timeout=CALL_S)
        for made in listed.items:
            self.seen.append((made.metadata.name, made.spec.replicas))
        version = listed.metadata.resource_version
        while not self._ended:
            for event in self._watch.stream(
                apps.list_namespaced_deployment,
                namespace,
                resource_version=version,
                timeout_seconds=WATCH_S,
                _request_timeout=(CALL_S, WATCH_S + CALL_S),
            ):
                made = event["object"]
                self.seen.append((made.metadata.name, made.spec.replicas))
            version = self._watch.resource_version


def scale_writes(proxy: Proxy, workload: str = "") -> int:
    """How many changes of a count the API server has accepted from Weir. The first write to a Deployment takes its count on as it is."""
    accepted = [
        request.path
        for request, status in proxy.answers
        if request.method == "PATCH" and request.path.endswith(f"{workload}/scale") and status == 200
    ]
    return len(accepted) - len(set(accepted))


def _actions() -> list[object]:
    return list(Action.objects.order_by("pk").values_list("pool", "kind", "before", "after", "step", "outcome"))


def actions_done(pool: str) -> int:
    return Action.objects.filter(pool=pool, step="done").count()


@contextmanager
def rehearsal(
    namespace: Namespace, folder: Path, *pools: str, call_s: float = 2.0
) -> Iterator[tuple[RealWorld, Proxy]]:
    """With the rights of deploy/kubernetes, and through a proxy that can fail."""
    with (
        controllers_way(namespace) as proxy,
        opened(proxy.kubeconfig(folder), namespace.name, *pools, name=CLUSTER, call_s=call_s) as real,
    ):
        yield RealWorld(real=real, rps=dict.fromkeys(pools, 1.0)), proxy


@contextmanager
def controllers_way(namespace: Namespace) -> Iterator[Proxy]:
    """A proxy to the API server with the rights of the controller in deploy/kubernetes."""
    plane = namespace.plane
    assert plane is not None
    namespace.create(*yaml.safe_load_all((ROOT / "deploy/kubernetes/base/rbac.yaml").read_text()))
    user = f"system:serviceaccount:{namespace.name}:weir-controller"
    plane.write_kubeconfig(plane.folder / namespace.name, user, "system:serviceaccounts", "system:authenticated")
    proxy = Proxy(plane, namespace.name)
    try:
        yield proxy
    finally:
        proxy.close()
