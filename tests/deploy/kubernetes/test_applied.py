"""The manifests, and workloads of the fleet, on a real API server."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from controlplane.fleet.clusters.registry import kubernetes
from controlplane.fleet.models import Cluster, Workload
from tests.deploy.kubernetes.built import built
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import service
from tests.support.commands import run
from tests.support.stored_pool import stored_pool
from tests.support.wait import eventually

pytestmark = pytest.mark.django_db(transaction=True)

OPERATORS = (
    "postgresql.cnpg.io",
    "clickhouse.altinity.com",
    "clickhouse-keeper.altinity.com",
    "redis.redis.opstreelabs.in",
)
"""Groups that exist where their operators are installed."""


@pytest.fixture
def row(cluster: Namespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """The test's namespace as a cluster of the fleet."""
    shutil.copy(cluster.kubeconfig, tmp_path / "here")
    monkeypatch.setattr(settings, "CONFIG", settings.CONFIG.model_copy(update={"kubeconfigs_dir": tmp_path}))
    return Cluster.objects.create(name="here", kubeconfig="here", namespace=cluster.name)


@pytest.mark.parametrize("overlay", ["starter", "production"])
def test_a_server_takes_every_manifest_and_a_second_time_nothing_differs(
    cluster: Namespace, row: Cluster, overlay: str
) -> None:
    manifests: list[dict[str, Any]] = []
    for manifest in built(f"overlays/{overlay}"):
        if manifest["kind"] != "Namespace" and not manifest["apiVersion"].startswith(OPERATORS):
            manifest["metadata"]["namespace"] = row.namespace
            for subject in manifest.get("subjects", []):
                subject["namespace"] = row.namespace
            manifests.append(manifest)
    connection = kubernetes(row)
    try:
        assert {difference.action for difference in connection.apply(manifests, dry_run=True)} == {"create"}
        connection.apply(manifests, dry_run=False)
        again = connection.apply(manifests, dry_run=True)
        assert [difference for difference in again if difference.action != "none"] == []
    finally:
        connection.close()
        # Their pods would take the nodes' room from the tests that come after.
        cluster.apps.delete_collection_namespaced_deployment(cluster.name)
        cluster.apps.delete_collection_namespaced_stateful_set(cluster.name)


@pytest.fixture
def workload(row: Cluster) -> Workload:
    pool = stored_pool("chat-here", region="here", cluster=row)
    made = Workload(
        kind="triton",
        pool=pool,
        image="triton:1",
        backend="python",
        store_claim="models",
        gpus=1,
        memory="100Mi",
        cpu="100m",
    )
    made.full_clean()
    made.save()
    return made


def test_a_workload_is_compared_applied_and_keeps_the_count_of_who_scales_it(
    cluster: Namespace, workload: Workload
) -> None:
    code, said = run("stack", "diff")
    assert (code, "create Deployment/chat-here" in said, "4 objects to change" in said) == (1, True, True)
    assert run("stack", "apply")[0] == 0
    assert run("stack", "diff") == (0, "cluster here: nothing differs\n")
    cluster.set_count("chat-here", 3)
    workload.image = "triton:2"
    workload.save()
    code, said = run("stack", "diff")
    assert (code, "'triton:1' → 'triton:2'" in said, "1 object to change" in said) == (1, True, True)
    assert run("stack", "apply")[0] == 0
    assert cluster.count("chat-here") == 3


def test_a_rendered_pool_runs_on_gpu_nodes(hollow: Namespace, workload: Workload) -> None:
    """A hollow node runs no container and mounts no claim: whether a scheduler takes the pod is what is seen here."""
    Workload.objects.update(store_claim="", backend="")
    assert run("stack", "apply")[0] == 0
    labels = "app.kubernetes.io/instance=chat-here"

    def node() -> str:
        listed = hollow.core.list_namespaced_pod(hollow.name, label_selector=labels).items
        return str(listed[0].spec.node_name or "") if listed else ""

    eventually(lambda: node().startswith("gpu-"), lambda: f"the pod is on {node()!r}")


def test_what_cannot_be_changed_is_named_with_the_rest_and_nothing_is_applied(
    cluster: Namespace, workload: Workload
) -> None:
    cluster.create(service("chat-here", "by-hand", grpc=8001) | {"spec": {"ports": [{"name": "grpc", "port": 8001}]}})
    for command in ("diff", "apply"):
        code, said = run("stack", command)
        assert (code, "create Deployment/chat-here" in said, "refused Service/chat-here" in said) == (1, True, True)
        assert "delete Service “chat-here” first" in said
    assert "nothing was applied" in said
    assert cluster.apps.list_namespaced_deployment(cluster.name).items == []


def test_a_container_that_is_not_weirs_is_named_where_it_stays(cluster: Namespace, workload: Workload) -> None:
    [_, deployment, *_] = yaml.safe_load_all(run("stack", "render")[1])
    deployment["spec"]["template"]["spec"]["containers"][0]["name"] = "by-hand"
    cluster.create(deployment)
    code, said = run("stack", "diff")
    assert (code, "container by-hand stays beside it" in said) == (1, True)


def test_what_somebody_else_made_is_adopted_when_that_is_asked_for(cluster: Namespace, workload: Workload) -> None:
    [_, deployment, *_] = yaml.safe_load_all(run("stack", "render")[1])
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "triton:by-hand"
    cluster.create(deployment)
    code, said = run("stack", "diff")
    assert (code, "adopt Deployment/chat-here" in said, "image is managed by kubectl-create" in said) == (1, True, True)
    code, said = run("stack", "apply")
    assert (code, "--adopt takes these fields over" in said) == (1, True)
    assert run("stack", "apply", "--adopt")[0] == 0
    assert run("stack", "diff") == (0, "cluster here: nothing differs\n")
