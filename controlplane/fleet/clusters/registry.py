"""The clusters of the fleet: made, bound to their pools and ended as the fleet's rows say."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from django.conf import settings

from controlplane.config.secrets import read_secret
from controlplane.fleet.clusters.local import LocalCluster
from controlplane.fleet.clusters.port import Cluster, PoolBinding
from controlplane.fleet.models import Cluster as ClusterRow
from controlplane.fleet.models import Pool

if TYPE_CHECKING:
    from controlplane.fleet.clusters.kubernetes.cluster import KubernetesCluster

log = structlog.get_logger(__name__)
Key = tuple[str, str, str, str]
Opener = Callable[[ClusterRow], Cluster]


def kubernetes(row: ClusterRow) -> "KubernetesCluster":
    """Not watched: for a command that looks once. Never raises: what is wrong with the credentials is the cluster's `problem`."""
    # The client takes 35 MB: only where there is such a cluster.
    from controlplane.fleet.clusters.kubernetes.client import Api, connect
    from controlplane.fleet.clusters.kubernetes.cluster import KubernetesCluster

    folder: Path = settings.CONFIG.kubeconfigs_folder
    kubeconfig = folder / row.kubeconfig if row.kubeconfig else None
    return KubernetesCluster(row.name, Api(partial(connect, kubeconfig)), row.namespace)


def open_kubernetes(row: ClusterRow) -> Cluster:
    """Watched from now on. Never raises, as above."""
    return kubernetes(row).start()


def open_local(row: ClusterRow) -> Cluster:
    """Watched from the first `bind` on."""
    config = settings.CONFIG
    return LocalCluster(row.name, config.local_cluster_url, read_secret(config.home / "cluster-token") or "")


class Clusters:
    """Every enabled cluster, by name. One that is away changes nothing for the others."""

    def __init__(self, openers: Mapping[str, Opener]) -> None:
        self._openers = openers
        self._open: dict[Key, Cluster] = {}

    def refresh(self) -> Mapping[str, Cluster]:
        """Bring the clusters up to date with the fleet, in two queries, and return them by name."""
        rows = {_key(row): row for row in ClusterRow.objects.filter(enabled=True)}
        for key in self._open.keys() - rows.keys():
            self._open.pop(key).close()
            log.info("cluster.closed", cluster=key[0])
        for key in rows.keys() - self._open.keys():
            self._open[key] = self._openers[rows[key].kind](rows[key])
            log.info("cluster.opened", cluster=key[0], kind=rows[key].kind)
        bindings: dict[str, list[PoolBinding]] = {}
        for pool in Pool.objects.filter(cluster__enabled=True).select_related("cluster"):
            assert pool.cluster is not None
            binding = PoolBinding(pool.name, pool.deployment, pool.protocol)  # type: ignore[arg-type]
            bindings.setdefault(pool.cluster.name, []).append(binding)
        for cluster in self._open.values():
            cluster.bind(bindings.get(cluster.name, []))
        return {cluster.name: cluster for cluster in self._open.values()}

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


def _key(row: ClusterRow) -> Key:
    """A cluster whose row has changed is another one."""
    return row.name, row.kind, row.kubeconfig, row.namespace


def clusters() -> Clusters:
    """The clusters of this process."""
    return Clusters({ClusterRow.Kind.KUBERNETES: open_kubernetes, ClusterRow.Kind.LOCAL: open_local})
