"""A fleet with one pool in one cluster, gateways that say what a test has them say, and an engine that ticks when it is told."""

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from controlplane.fleet import publish
from controlplane.fleet.models import Cluster, LLMModel, Pool, PublishedSnapshot, Region, Variant
from controlplane.policy.act.journal import Fence
from controlplane.policy.core.observation import CanaryCounts
from controlplane.policy.engine import Engine, Leader, Ticked
from controlplane.policy.models import PolicyRevision
from controlplane.policy.observe.core.traffic import Traffic
from controlplane.policy.observe.gather import Background
from controlplane.policy.observe.planned import Planned, PoolKnown
from forecasting.capacity.assumptions import ReplicaCapacity
from inference.contract import snapshot
from inference.contract.gateway_signals import GatewaySignals, ModelSignals, Obeyed, PoolSignals, ReplicaSignals
from tests.support.past_the_audit import unrecorded
from tests.support.policy.cluster import ClusterInMemory

POOL, CLUSTER, GATEWAY = "chat-pool", "east", "http://gateway"
START_MS = 1_700_000_000_000


def scaling(**spec: object) -> str:
    """The text of a policy for POOL."""
    lines = {"pool": POOL, "min": 1, "max": 5, **spec}
    body = "\n".join(f"  {key}: {value}" for key, value in lines.items())
    return f"apiVersion: weir/v1\nkind: Scaling\nmetadata:\n  name: chat\nspec:\n{body}\n"


def revision(
    text: str, name: str = "chat", kind: str = "Scaling", number: int = 1, state: str = "active"
) -> PolicyRevision:
    return PolicyRevision.objects.create(
        name=name, kind=kind, number=number, text=textwrap.dedent(text), state=state, author="ada"
    )


@transaction.atomic  # so that it is published once
@unrecorded()
def fleet(pools: Mapping[str, str] | None = None) -> None:
    """Models by pool; POOL of model `chat` where nothing is said."""
    region = Region.objects.create(name="east")
    cluster = Cluster.objects.create(name=CLUSTER, kind=Cluster.Kind.LOCAL)
    for pool, model in (pools or {POOL: "chat"}).items():
        row, _ = LLMModel.objects.get_or_create(name=model)
        variant, _ = Variant.objects.get_or_create(name=f"{model}-8b", model=row)
        Pool.objects.create(
            name=pool, variant=variant, region=region, cluster=cluster, protocol="openai", model_name=model
        )


def snapshot_in_force() -> snapshot.Snapshot:
    return snapshot.decode(PublishedSnapshot.objects.get().text.encode())


@dataclass
class World:
    """`rps` is what arrives at each pool. The gateway obeys what is published, unless `obeys` is false."""

    cluster: ClusterInMemory = field(default_factory=lambda: ClusterInMemory(CLUSTER))
    now_ms: int = START_MS
    rps: dict[str, float] = field(default_factory=lambda: {POOL: 1.0})
    in_flight: dict[str, int] = field(default_factory=dict)
    """By replica."""
    listed: list[str] = field(default_factory=list)
    """Replicas that the gateway speaks of though their cluster does not show them as ready."""
    warming: set[str] = field(default_factory=set)
    """Replicas that the gateway sends no users' requests to yet."""
    waiting: int = 0
    """Requests that wait in the gateway, of each pool."""
    canaries: dict[str, CanaryCounts] = field(default_factory=dict)
    """What the ledger has of them."""
    capacity_rps: float = 10.0
    silent: bool = False
    obeys: bool = True
    generation: int = 1
    fence: Fence = lambda: None
    totals: dict[str, float] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    wrap: Callable[[ClusterInMemory], object] = lambda cluster: cluster

    def __post_init__(self) -> None:
        self.engine = self.new_engine()

    def new_engine(self) -> Engine:
        """As a process that has just started, which leads."""
        wrapped = self.wrap(self.cluster)
        self.engine = Engine(self.background, lambda: self._clusters(wrapped), clock=lambda: self.now_ms, threads=False)
        return self.engine

    def _clusters(self, wrapped: object) -> dict[str, Any]:
        """While its owner has it enabled."""
        return {CLUSTER: wrapped} if Cluster.objects.filter(name=CLUSTER, enabled=True).exists() else {}

    def background(self) -> Background:
        capacity = ReplicaCapacity(self.capacity_rps, "ledger", slots=8)
        known = {pool: PoolKnown("gpu", 1, 2.0, capacity, 30.0) for pool in self.rps}
        return Background(self.traffic, Planned(self.now_ms, known), canaries=self.canaries)

    def listen(self, seconds: int = 1) -> None:
        """One round of the gateway's signals, so long after the last."""
        if self.silent:
            self.traffic = self.traffic.next(self.now_ms, {GATEWAY: "it does not answer"})
            return
        for pool, rps in self.rps.items():
            self.totals[pool] = self.totals.get(pool, 0.0) + rps * seconds
        obeyed = publish.published_versions(self.now_ms)[0] if self.obeys else Obeyed()
        signals = GatewaySignals(
            at_ms=self.now_ms,
            started_ms=START_MS,
            gateway="gateway",
            region="east",
            requests=int(sum(self.totals.values())),
            cpu_s=0.0,
            snapshot=obeyed,
            pools={pool: self._pool(pool) for pool in self.rps},
            models={"chat": {"premium": ModelSignals(arrived=int(self.totals.get(POOL, 0)))}},
        )
        self.traffic = self.traffic.next(self.now_ms, self.answers(signals))

    def heard_for_long(self) -> None:
        """The load that arrives now has done so since before Weir began to decide."""
        self.listen()
        for _ in range(3):
            self.now_ms += 12_000
            self.listen(12)

    def answers(self, signals: GatewaySignals) -> dict[str, GatewaySignals | str]:
        """What each gateway says."""
        return {GATEWAY: signals}

    def _pool(self, pool: str) -> PoolSignals:
        workload = self.cluster.workloads.get(pool)
        ready = [replica.name for replica in workload.replicas if replica.ready] if workload else []
        names = dict.fromkeys([*ready, *self.listed])
        replicas = {
            name: ReplicaSignals(self.in_flight.get(name, 0), up=True, warming=name in self.warming, age_s=0.1)
            for name in names
        }
        total = int(self.totals[pool])
        in_flight = sum(each.in_flight for each in replicas.values())
        return PoolSignals(arrived=total, answered=total, in_flight=in_flight, waiting=self.waiting, replicas=replicas)

    def tick(self, seconds: int = 1, every_s: int = 1) -> Ticked:
        """So many seconds with a tick every `every_s`; the last one's result."""
        ticked = Ticked()
        for _ in range(0, seconds, every_s):
            self.now_ms += every_s * 1_000
            self.cluster.now_ms = self.now_ms
            self.listen(every_s)
            ticked = self.engine.tick(Leader(f"process-{self.generation}", self.generation, self.fence), self.now_ms)
        return ticked


def world_of(replicas: int) -> World:
    """The fleet, and so many replicas of POOL."""
    fleet()
    world = World()
    world.cluster.add(POOL, replicas)
    return world
