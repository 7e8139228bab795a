"""The clusters of the fleet, several at once, one of them away."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.fleet.clusters.port import PoolSeen
from controlplane.fleet.clusters.registry import Clusters, clusters
from controlplane.fleet.models import Cluster, Pool
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import deployment
from tests.support.stored_pool import stored_pool
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db(transaction=True)


NONE = PoolSeen("none")


@pytest.fixture
def kubeconfigs(home: Path) -> Path:
    folder = home / "kubeconfigs"
    folder.mkdir()
    return folder


@pytest.fixture
def registry(kubeconfigs: Path) -> Iterator[Clusters]:
    made = clusters()
    yield made
    made.close()


def pool(name: str, cluster: Cluster, **values: str) -> Pool:
    return stored_pool(name, protocol="openai", cluster=cluster, **values)


def test_one_cluster_that_is_away_says_so_and_the_other_goes_on(
    hollow: Namespace, registry: Clusters, kubeconfigs: Path
) -> None:
    shutil.copy(hollow.kubeconfig, kubeconfigs / "near")
    (kubeconfigs / "far").write_text(
        hollow.kubeconfig.read_text().replace(f":{hollow.plane.port}", ":1") if hollow.plane else ""
    )
    for name in ("near", "far"):
        made = Cluster.objects.create(name=name, kubeconfig=name, namespace=hollow.name)
        pool(f"chat-{name}", made, workload="chat")
    hollow.create(deployment("chat", 2))
    opened = registry.refresh()
    assert set(opened) == {"near", "far"}
    eventually(lambda: len(opened["near"].seen().pools.get("chat-near", NONE).replicas) == 2)
    eventually(lambda: "no connection to https://" in opened["far"].seen().problem)
    assert opened["far"].seen().seen_ms is None and opened["far"].seen().pools == {}
    assert registry.refresh()["near"] is opened["near"]


def test_credentials_that_are_missing_are_named(registry: Clusters, kubeconfigs: Path) -> None:
    (kubeconfigs / "broken").write_text("kind: Config")
    for name in ("absent", "broken", ""):
        Cluster.objects.create(name=name or "inside", kubeconfig=name, namespace="weir")
    opened = registry.refresh()
    for name, message in {
        "absent": "There is no file absent in WEIR_KUBECONFIGS_DIR",
        "broken": "Kubeconfig broken: current-context is missing",
        "inside": "Weir does not run in a cluster itself",
    }.items():
        eventually(lambda name=name, message=message: message in opened[name].seen().problem)


def test_a_cluster_follows_its_row(registry: Clusters, kubeconfigs: Path) -> None:
    row = Cluster.objects.create(name="near", kubeconfig="near", namespace="weir")
    first = registry.refresh()["near"]
    Cluster.objects.filter(pk=row.pk).update(namespace="other")
    second = registry.refresh()["near"]
    assert second is not first
    Cluster.objects.filter(pk=row.pk).update(enabled=False)
    assert registry.refresh() == {}
