"""Replicas are discovered: the rows of pools that run in a cluster follow what the cluster says."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import structlog
from django.db import transaction

from controlplane.fleet.clusters.port import ClusterSeen, PoolSeen, ReplicaSeen
from controlplane.fleet.models import Pool, Replica
from controlplane.policy.act.journal import KEEPS_DRAINING, Fence
from controlplane.policy.models import Action

log = structlog.get_logger(__name__)


class _Row(NamedTuple):
    """Of a replica, what discovery sets."""

    managed_by: str
    draining: bool
    url: str
    grpc: str
    http: str
    metrics: str

    def says(self, seen: ReplicaSeen, leaving: bool) -> bool:
        return (
            self.managed_by == Replica.ManagedBy.CLUSTER
            and self.draining == (seen.terminating or leaving)
            and (not seen.address or seen.address in (self.url, self.grpc))
            and (not seen.http or seen.http == self.http)
            and (not seen.metrics or seen.metrics == self.metrics)
        )


def discover(clusters: Iterable[ClusterSeen], fence: Fence) -> int:
    """Bring the rows of discovered replicas up to date. Returns how many changed. Raises LeaseLostError.

    A replica is added once it is ready. It stays while it exists: whether it answers is judged by gateways, which see more than a
    cluster whose nodes have lost their contact. A cluster that has not been seen keeps its rows, and so does a pool in it.
    """
    seen = {name: pool for cluster in clusters if cluster.seen_ms is not None for name, pool in cluster.pools.items()}
    if not seen:
        return 0
    leaving, rows = _leaving(), _rows()
    changed = [
        name for name, pool in seen.items() if _differs(pool, rows.get(name, {}), leaving.get(name, frozenset()))
    ]
    pools = Pool.objects.filter(name__in=changed, cluster__isnull=False).prefetch_related("replicas") if changed else ()
    changes = [
        change for pool in pools if (change := _changes(pool, seen[pool.name], leaving.get(pool.name, frozenset())))
    ]
    if not changes:
        return 0
    with transaction.atomic():
        fence()
        for saved, deleted in changes:
            for row in saved:
                row.save()
            for row in deleted:
                row.delete()
                log.info("replica.gone", replica=row.component)
    return sum(len(saved) + len(deleted) for saved, deleted in changes)


def _rows() -> dict[str, dict[str, _Row]]:
    """By pool and name."""
    rows: dict[str, dict[str, _Row]] = {}
    for row in Replica.objects.values_list(
        "pool__name", "name", "managed_by", "draining", "url", "grpc", "http", "metrics"
    ):
        rows.setdefault(row[0], {})[row[1]] = _Row(*row[2:])
    return rows


def _differs(seen: PoolSeen, rows: Mapping[str, _Row], leaving: frozenset[str]) -> bool:
    """Whether any row of a pool may have to change: most ticks find none."""
    if seen.wanted is None:  # no workload was seen, so nothing is known of its replicas
        return False
    here = {replica.name for replica in seen.replicas}
    if any(name not in here and row.managed_by == Replica.ManagedBy.CLUSTER for name, row in rows.items()):
        return True
    for replica in seen.replicas:
        row = rows.get(replica.name)
        if row is None:
            if replica.ready and not replica.terminating:
                return True
        elif row.managed_by != Replica.ManagedBy.OWNER and not row.says(replica, replica.name in leaving):
            return True
    return False


def _leaving() -> Mapping[str, frozenset[str]]:
    """By pool, the replicas that an action takes away."""
    leaving: dict[str, set[str]] = {}
    rows = Action.objects.filter(kind=Action.Kind.DOWN, step__in=KEEPS_DRAINING).values_list("pool", "replicas")
    for pool, replicas in rows:
        leaving.setdefault(pool, set()).update(replicas)
    return {pool: frozenset(replicas) for pool, replicas in leaving.items()}


def _changes(pool: Pool, seen: PoolSeen, leaving: frozenset[str]) -> tuple[list[Replica], list[Replica]] | None:
    """Rows to save and rows to delete."""
    if seen.wanted is None:
        return None
    rows = {row.name: row for row in pool.replicas.all()}
    here = {replica.name: replica for replica in seen.replicas}
    saved = []
    for name, replica in here.items():
        row = rows.get(name)
        if row is None:
            if not replica.ready or replica.terminating or not replica.address:
                continue
            row = Replica(pool=pool, name=name, managed_by=Replica.ManagedBy.CLUSTER)
            log.info("replica.discovered", replica=f"{pool.name}/{name}", address=replica.address)
        elif row.managed_by == Replica.ManagedBy.OWNER:
            continue  # entered by a person under the same name
        if _take(row, pool, replica, replica.terminating or name in leaving):
            saved.append(row)
    ended = [row for name, row in rows.items() if name not in here and row.managed_by == Replica.ManagedBy.CLUSTER]
    return (saved, ended) if saved or ended else None


def _take(row: Replica, pool: Pool, seen: ReplicaSeen, draining: bool) -> bool:
    """Set the row's fields; whether any changed. A replica that has no address any more keeps its last."""
    wanted = {"draining": draining, "managed_by": Replica.ManagedBy.CLUSTER}
    if seen.address:
        wanted["url" if pool.protocol == "openai" else "grpc"] = seen.address
    if seen.http:
        wanted["http"] = seen.http
    if seen.metrics:
        wanted["metrics"] = seen.metrics
    changed = row.pk is None
    for name, value in wanted.items():
        if getattr(row, name) != value:
            setattr(row, name, value)
            changed = True
    return changed
