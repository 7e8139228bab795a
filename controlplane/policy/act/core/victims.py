"""Which replicas go when a pool shrinks."""

from collections.abc import Callable, Container

from controlplane.fleet.clusters.port import PoolSeen, ReplicaSeen


def present(seen: PoolSeen) -> list[ReplicaSeen]:
    """The replicas that nobody has told to end."""
    return [replica for replica in seen.replicas if not replica.terminating]


def victims(seen: PoolSeen, count: int, in_flight: Callable[[str], float | None]) -> list[ReplicaSeen]:
    """The `count` replicas whose end costs least: those that wait for a node, those that start, then those with the fewest requests,
    of these the youngest. Kubernetes chooses in the same order where they differ in readiness.
    """

    def cost(replica: ReplicaSeen) -> tuple[int, float, int]:
        busy = in_flight(replica.name)
        return _stage(replica), float("inf") if busy is None else busy, -replica.created_ms

    return sorted(present(seen), key=cost)[: max(0, count)]


def ahead(seen: PoolSeen, chosen: Container[str]) -> list[str]:
    """The replicas that would go in the place of a chosen one, whatever their cost, because they are less ready.

    https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset
    """
    stages = [_stage(replica) for replica in present(seen) if replica.name in chosen]
    last = max(stages, default=0)
    return [replica.name for replica in present(seen) if replica.name not in chosen and _stage(replica) < last]


def _stage(replica: ReplicaSeen) -> int:
    return 0 if replica.pending_reason else 1 if not replica.ready else 2
