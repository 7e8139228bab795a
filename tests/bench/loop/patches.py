"""From the moment at which the traffic of a pool rises to the scale patch that a real Kubernetes API server has accepted, with a tick
each second. The gateway is a stand-in that answers `/signals`: requests arrive by chance (Poisson), and rise fivefold in one pool
after the other, at moments that no clock of the controller knows. Everything else is real: the controller's thread, lease and
database, the watch and the patch.
"""

import random
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
from django.conf import settings

from controlplane.fleet.clusters.registry import clusters
from controlplane.policy.loop import PolicyLoop
from controlplane.policy.models import Action
from controlplane.telemetry.store import Store
from inference.contract.gateway_signals import GatewaySignals, Obeyed, PoolSignals
from tests.bench.figures import Figure, say
from tests.bench.loop.control import pools, scaling
from tests.bench.processes import BenchError
from tests.bench.standins.gateway_signals import served
from tests.support.cluster.binaries import binaries
from tests.support.cluster.control_plane import control_plane
from tests.support.cluster.namespace import namespace
from tests.support.cluster.objects import deployment

POOLS = 40
EVERY_S = (0.7, 1.4)
"""How long after a pool's traffic the next pool's rises."""
LOW_RPS, HIGH_RPS, WAITING = 5.0, 25.0, 12
BEFORE_S = 120
"""Traffic is steady for so long first."""
QUEUES = 2
"""In every second pool requests wait once its traffic has risen; in the others the arrivals alone say that it has."""


class Risen:
    """A gateway's totals, made of when each pool's traffic rose."""

    def __init__(self, names: list[str]) -> None:
        self.began = self._counted_until = time.time()
        self.rose: dict[str, float] = {}
        self.names = names
        self._totals = dict.fromkeys(names, 0)
        self._chance = np.random.default_rng(5)
        self._lock = threading.Lock()

    def signals(self) -> bytes:
        with self._lock:
            now = time.time()
            self._count(now)
            pools = {name: self.pool(name) for name in self.names}
        return msgspec.json.encode(
            GatewaySignals(
                at_ms=int(now * 1e3),
                started_ms=int(self.began * 1e3),
                gateway="bench",
                region="bench",
                requests=0,
                cpu_s=0.0,
                snapshot=Obeyed(),
                pools=pools,
            )
        )

    def pool(self, name: str) -> PoolSignals:
        total = self._totals[name]
        waiting = WAITING if name in self.rose and self.queues(name) else 0
        return PoolSignals(arrived=total, answered=total, waiting=waiting)

    def queues(self, name: str) -> bool:
        return self.names.index(name) % QUEUES == 0

    def _count(self, now: float) -> None:
        """The requests since it counted last."""
        since, self._counted_until = self._counted_until, now
        for name in self.names:
            high_s = max(0.0, now - max(since, self.rose.get(name, now)))
            self._totals[name] += int(self._chance.poisson(LOW_RPS * (now - since) + (HIGH_RPS - LOW_RPS) * high_s))


def measured(folder: Path) -> Iterator[Figure]:
    names = [f"pool-{number:02}" for number in range(POOLS)]
    (folder / "plane").mkdir()
    for plane in control_plane(folder / "plane", binaries(), nodes=3, gpus=4):
        for space in namespace(plane.kubeconfig, plane):
            (folder / "kubeconfigs" / "bench").symlink_to(plane.kubeconfig)
            for name in names:
                space.create(deployment(name))
            pools("bench", "kubernetes", names, kubeconfig="bench", namespace=space.name)
            for name in names:
                scaling(name, min=1, max=2, reactive="{replica_rps: 20, utilisation: 0.8, waiting_per_replica: 8}")
            risen = Risen(names)
            with served(risen.signals) as url:
                took_s = _rise(risen, url)
    for name, what, of in (("signal", "requests wait", True), ("arrivals", "more arrive, and none waits", False)):
        seconds = sorted(took for pool, took in took_s.items() if risen.queues(pool) == of)
        if not seconds:
            raise BenchError(f"no pool was scaled of those in which {what}")
        p95_s = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
        say(f"{what}: {len(seconds)} of {POOLS // QUEUES} patches, worst {seconds[-1]:.2f} s")
        yield Figure(f"loop.{name}_to_patch_p95_s", p95_s, "s", "at most 3 s" if of else what)
        yield Figure(f"loop.{name}_to_patch_median_s", seconds[len(seconds) // 2], "s", what)


def _rise(risen: Risen, url: str) -> dict[str, float]:
    """Seconds from each rise to the accepted patch."""
    chance = random.Random(11)
    config = settings.CONFIG.model_copy(update={"gateway_url": url})
    stopping = threading.Event()
    loop = PolicyLoop(
        config,
        Store("clickhouse://bench:none@127.0.0.1:1/weir"),
        clusters(),
        "controller",
        "bench",
        timedelta(seconds=20),
        stopping,
    )
    loop.start()
    time.sleep(BEFORE_S)
    for name in risen.names:
        risen.rose[name] = time.time()
        time.sleep(chance.uniform(*EVERY_S))
    time.sleep(5)
    stopping.set()
    loop.join(10)
    accepted = {
        action.pool: action.accepted_at.timestamp() for action in Action.objects.filter(kind="up") if action.accepted_at
    }
    early = [name for name in risen.names if name in accepted and accepted[name] < risen.rose[name]]
    if early or len(accepted) < len(risen.names):
        say(f"{len(early)} were scaled before their traffic rose, {len(risen.names) - len(accepted)} were not")
    return {name: accepted[name] - risen.rose[name] for name in risen.names if name in accepted and name not in early}
