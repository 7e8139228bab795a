"""A cluster in memory that keeps the port's contract strictly: tokens, generations, and counts that change as its owner says."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.fleet.clusters.errors import ClusterError, ConflictError, InvalidError, StaleLeaderError
from controlplane.fleet.clusters.port import (
    AutoscalerSeen,
    ClusterSeen,
    Difference,
    GpusSeen,
    Manifest,
    PoolBinding,
    PoolSeen,
    ReplicaSeen,
)


@dataclass
class Workload:
    count: int
    version: int = 1
    replicas: list[ReplicaSeen] = field(default_factory=list)
    preferred: tuple[str, ...] = ()
    owner: str = "weir"
    set_by: str = "weir"
    taken_on: bool = True
    autoscaler: AutoscalerSeen | None = None
    made: int = 0


class ClusterInMemory:
    """`now_ms` is its clock. Replicas start at once, unless `nodes` are few. `failing` is raised by every call that changes it."""

    def __init__(self, name: str, now_ms: int = 1_000) -> None:
        self.name = name
        self.now_ms = now_ms
        self.workloads: dict[str, Workload] = {}
        self.writes: list[tuple[str, str, object]] = []
        self.failing: ClusterError | None = None
        self.fails_to_claim: ClusterError | None = None
        self.fails_to_scale: ClusterError | None = None
        self.problem = ""
        self.age_ms = 0
        self.generation = 0
        self.claims = 0
        self.places: int | None = None
        self.gateways: tuple[str, ...] = ()
        self.removed: list[str] = []
        self.published: list[bytes] = []

    def add(self, pool: str, count: int) -> Workload:
        self.workloads[pool] = workload = Workload(count)
        self._follow(pool)
        return workload

    def bind(self, pools: Sequence[PoolBinding]) -> None:
        self.bound = tuple(pools)

    def seen(self) -> ClusterSeen:
        pools = {
            name: PoolSeen(
                name,
                wanted=workload.count,
                token=str(workload.version),
                replicas=tuple(workload.replicas),
                owner_of_count=workload.owner,
                taken_on=workload.taken_on,
                count_set_by=workload.set_by,
                autoscaler=workload.autoscaler,
            )
            for name, workload in self.workloads.items()
        }
        gpus = {} if self.places is None else {"gpu": GpusSeen(self.places, sum(map(_placed, self.workloads.values())))}
        return ClusterSeen(
            self.name,
            pools=pools,
            seen_ms=self.now_ms - self.age_ms,
            age_ms=self.age_ms,
            problem=self.problem,
            gpus=gpus,
            gateways=self.gateways,
            watching=not self.problem,
        )

    def claim(self, generation: int, pools: Collection[str]) -> None:
        """What somebody else set is a hand's from now on, as in Kubernetes once a Deployment bears a leader's mark."""
        self._accept(generation)
        self.claims += 1
        if self.fails_to_claim is not None:
            raise self.fails_to_claim
        for workload in (self.workloads[name] for name in pools if name in self.workloads):
            workload.owner = workload.owner if workload.set_by == "weir" else "hand"

    def fences(self) -> Mapping[str, int]:
        return {"cluster in memory": self.generation}

    def scale(self, pool: str, replicas: int, *, token: str, generation: int) -> str:
        self._accept(generation)
        if self.fails_to_scale is not None:
            raise self.fails_to_scale
        workload = self._workload(pool)
        if token != str(workload.version):
            raise ConflictError(f"{pool} has changed")
        workload.count, workload.owner, workload.set_by = replicas, "weir", "weir"
        workload.version += 1
        self.writes.append(("scale", pool, replicas))
        self._follow(pool)
        return str(workload.version)

    def prefer_removal(self, pool: str, replicas: Sequence[str], *, generation: int) -> None:
        self._accept(generation)
        names = {replica.name for replica in self._workload(pool).replicas}
        if missing := set(replicas) - names:
            raise ConflictError(f"{pool} has no replica {sorted(missing)} by now")
        self._workload(pool).preferred = tuple(replicas)
        self.writes.append(("prefer", pool, tuple(replicas)))

    def raise_floor(self, pool: str, min_replicas: int, *, generation: int) -> None:
        self._accept(generation)
        workload = self._workload(pool)
        if workload.autoscaler is None:
            raise InvalidError(f"{pool} has no autoscaler")
        had = workload.autoscaler
        own = had.min_replicas if had.owner_min_replicas is None else had.owner_min_replicas
        floor = max(min_replicas, own)
        workload.autoscaler = AutoscalerSeen(had.name, floor, had.max_replicas, owner_min_replicas=own)
        workload.count = max(workload.count, floor)  # as the autoscaler does
        self._follow(pool)
        self.writes.append(("floor", pool, min_replicas))

    def publish(self, document: bytes, *, generation: int) -> None:
        self._accept(generation)
        self.published.append(document)

    def apply(self, manifests: Sequence[Manifest], *, dry_run: bool, adopt: bool = False) -> list[Difference]:
        raise InvalidError("it takes no manifests")

    def close(self) -> None:
        pass

    def counts(self, pool: str) -> list[int]:
        """The counts that were set, in order."""
        return [int(str(count)) for call, name, count in self.writes if (call, name) == ("scale", pool)]

    def by_hand(self, pool: str, count: int) -> None:
        """Somebody else sets the count."""
        workload = self.workloads[pool]
        workload.count, workload.owner, workload.set_by = count, "hand", "kubectl"
        workload.version += 1
        self._follow(pool)

    def _accept(self, generation: int) -> None:
        if self.failing is not None:
            raise self.failing
        if generation < self.generation:
            raise StaleLeaderError(f"generation {self.generation} leads")
        self.generation = generation

    def _workload(self, pool: str) -> Workload:
        if pool not in self.workloads:
            raise InvalidError(f"there is no {pool}")
        return self.workloads[pool]

    def _follow(self, pool: str) -> None:
        """As a Deployment: those without a place go first, then the preferred, then the youngest."""
        workload = self.workloads[pool]
        while len(workload.replicas) > workload.count:
            order = sorted(
                workload.replicas,
                key=lambda replica: (replica.ready, replica.name not in workload.preferred, -replica.created_ms),
            )
            workload.replicas.remove(order[0])
            self.removed.append(order[0].name)
        while len(workload.replicas) < workload.count:
            workload.made += 1
            name = f"{pool}-{workload.made}"
            has_place = self.places is None or sum(map(_placed, self.workloads.values())) < self.places
            workload.replicas.append(
                ReplicaSeen(
                    name,
                    pool,
                    address=f"http://127.0.0.1:{9000 + workload.made}/v1" if has_place else "",
                    created_ms=self.now_ms,
                    ready=has_place,
                    pending_reason="" if has_place else "Unschedulable: 0/1 nodes have a free GPU",
                    pending_since_ms=None if has_place else self.now_ms,
                )
            )


def _placed(workload: Workload) -> int:
    return sum(replica.ready for replica in workload.replicas)
