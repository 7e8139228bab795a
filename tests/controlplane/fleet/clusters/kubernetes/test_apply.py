"""Applying objects to a real cluster: what changes is said before, and nobody's fields are taken unasked."""

from copy import deepcopy
from typing import Any

import pytest

from controlplane.fleet.clusters.errors import InvalidError, SecondOwnerError
from controlplane.fleet.clusters.kubernetes.cluster import KubernetesCluster
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import deployment, disruption_limit, service
from tests.support.cluster.opened import opened


def with_image(manifest: dict[str, Any], image: str) -> dict[str, Any]:
    changed = deepcopy(manifest)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return changed


def actions(
    near: KubernetesCluster, *manifests: dict[str, Any], dry_run: bool = True, adopt: bool = False
) -> list[str]:
    return [difference.action for difference in near.apply(manifests, dry_run=dry_run, adopt=adopt)]


def test_objects_are_made_changed_and_left_alone(cluster: Namespace) -> None:
    objects = [deployment("chat", 3), service("chat", "chat", http=8000), disruption_limit("chat", "chat", 1)]
    with opened(cluster.kubeconfig, cluster.name) as near:
        assert actions(near, *objects) == ["create", "create", "create"]
        assert cluster.core.list_namespaced_service(cluster.name).items == []
        assert actions(near, *objects, dry_run=False) == ["create", "create", "create"]
        assert cluster.count("chat") == 3
        assert actions(near, *objects) == ["none", "none", "none"]
        changed = with_image(objects[0], "registry.k8s.io/pause:3.9")
        (difference,) = near.apply([changed], dry_run=True)
        assert difference.changes == (
            ("spec.template.spec.containers[server].image", "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.9"),
        )
        assert (difference.action, difference.taken_from) == ("change", ())


def test_applying_leaves_the_count_to_policies(cluster: Namespace) -> None:
    with opened(cluster.kubeconfig, cluster.name) as near:
        near.apply([deployment("chat", 3)], dry_run=False)
        cluster.set_count("chat", 5)
        assert actions(near, deployment("chat", 1)) == ["none"]
        near.apply([with_image(deployment("chat", 1), "registry.k8s.io/pause:3.9")], dry_run=False)
        assert cluster.count("chat") == 5


def test_what_somebody_else_made_is_adopted_and_its_fields_are_not_taken_unasked(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 2), manager="helm")
    other = with_image(deployment("chat"), "registry.k8s.io/pause:3.9")
    with opened(cluster.kubeconfig, cluster.name) as near:
        (same,) = near.apply([deployment("chat")], dry_run=True)
        assert (same.action, same.taken_from, same.changes) == ("adopt", (), ())
        (difference,) = near.apply([other], dry_run=True)
        assert difference.taken_from == (('.spec.template.spec.containers[name="server"].image', "helm"),)
        with pytest.raises(SecondOwnerError, match="image of helm"):
            near.apply([other], dry_run=False)
        assert image(cluster) == "registry.k8s.io/pause:3.10"
        assert actions(near, other, dry_run=False, adopt=True) == ["adopt"]
        assert image(cluster) == "registry.k8s.io/pause:3.9"
        assert actions(near, other) == ["none"]
    assert cluster.count("chat") == 2


def image(cluster: Namespace) -> str:
    return str(cluster.apps.read_namespaced_deployment("chat", cluster.name).spec.template.spec.containers[0].image)


def test_nothing_is_applied_where_any_of_it_cannot_be(cluster: Namespace) -> None:
    broken = deployment("broken")
    broken["spec"]["selector"]["matchLabels"] = {"app": "another"}
    with opened(cluster.kubeconfig, cluster.name) as near, pytest.raises(InvalidError, match="does not match"):
        near.apply([deployment("chat"), broken], dry_run=False)
    assert cluster.apps.list_namespaced_deployment(cluster.name).items == []


def test_what_a_quota_refuses_is_said_beside_the_rest_and_with_no_other_remedy(cluster: Namespace) -> None:
    hard = {"count/services": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": hard}}
    cluster.create(quota)
    with opened(cluster.kubeconfig, cluster.name) as near:
        made, refused = near.apply([deployment("chat"), service("chat", "chat", http=8000)], dry_run=True)
    assert (made.action, refused.action) == ("create", "refused")
    assert refused.problem.startswith("Service “chat”: PATCH") and "quota" in refused.problem
    assert refused.problem.endswith("(an admission policy, a webhook or a quota): change the rule.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Deploymnet"}, "no such kind in apps/v1. Check its spelling"),
        ({"apiVersion": "apps/v9"}, "this cluster has no apps/v9"),
        ({"apiVersion": "v1", "kind": "Node"}, "which is all that Weir changes"),
        ({"metadata": {"name": "chat", "namespace": "kube-system"}}, "which is all that Weir changes"),
        ({"metadata": {}}, "no apiVersion, kind or metadata.name"),
    ],
)
def test_what_is_no_object_of_the_namespace_is_refused(
    cluster: Namespace, change: dict[str, Any], message: str
) -> None:
    with opened(cluster.kubeconfig, cluster.name) as near, pytest.raises(InvalidError, match=message):
        near.apply([{**deployment("chat"), **change}], dry_run=False)
