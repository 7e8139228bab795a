"""Weir's own view of a cluster in tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from controlplane.fleet.clusters.kubernetes.client import CALL_S, Api, connect
from controlplane.fleet.clusters.kubernetes.cluster import KubernetesCluster
from controlplane.fleet.clusters.port import PoolBinding, PoolSeen
from tests.support.wait import eventually


@contextmanager
def opened(
    kubeconfig: Path, namespace: str, *pools: str, name: str = "near", call_s: float = CALL_S
) -> Iterator[KubernetesCluster]:
    """A cluster that watches, with pools whose servers speak OpenAI's API; ended, threads too, afterwards."""
    cluster = KubernetesCluster(name, Api(partial(connect, kubeconfig), call_s), namespace)
    cluster.bind([PoolBinding(pool, pool, "openai") for pool in pools])
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.close()
        assert cluster.join(120), "threads of the cluster go on"


def wait_for(cluster: KubernetesCluster, pool: str, holds: Callable[[PoolSeen], bool]) -> PoolSeen:
    """The pool once it is so."""

    def come() -> bool:
        pools = cluster.seen().pools
        return pool in pools and holds(pools[pool])

    eventually(come, lambda: f"{pool} is {cluster.seen()}")
    return cluster.seen().pools[pool]
