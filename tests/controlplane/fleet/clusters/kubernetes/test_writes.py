"""What Weir changes in a real cluster, and which of its changes are refused."""

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from controlplane.fleet.clusters.errors import ConflictError, ForbiddenError, InvalidError, StaleLeaderError
from controlplane.fleet.clusters.kubernetes.cluster import MAX_BYTES, SNAPSHOT, SNAPSHOT_KEY
from controlplane.fleet.clusters.kubernetes.fence import LEASE
from controlplane.fleet.clusters.kubernetes.paths import DELETION_COST
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import autoscaler, deployment
from tests.support.cluster.opened import opened, wait_for
from tests.support.cluster.proxy import Request, writes
from tests.support.cluster.rehearsed import controllers_way
from tests.support.wait import eventually


def test_a_count_is_set_and_a_second_one_needs_no_new_look(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 1))
    with opened(cluster.kubeconfig, cluster.name, "chat") as near:
        token = wait_for(near, "chat", lambda pool: pool.wanted == 1).token
        token = near.scale("chat", 3, token=token, generation=1)
        assert cluster.count("chat") == 3
        near.scale("chat", 2, token=token, generation=1)
        wait_for(near, "chat", lambda pool: pool.wanted == 2)
    assert cluster.count("chat") == 2


def test_a_count_that_somebody_changed_since_is_not_written_over(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 1))
    with opened(cluster.kubeconfig, cluster.name, "chat") as near:
        token = wait_for(near, "chat", lambda pool: pool.wanted == 1).token
        cluster.set_count("chat", 4)
        with pytest.raises(ConflictError, match="has changed since"):
            near.scale("chat", 2, token=token, generation=1)
    assert cluster.count("chat") == 4


def test_a_change_of_status_alone_is_no_conflict(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 1, gated=True))
    with opened(hollow.kubeconfig, hollow.name, "chat") as near:
        before = wait_for(near, "chat", lambda pool: len(pool.replicas) == 1 and bool(pool.replicas[0].address))
        hollow.open_gate(before.replicas[0].name)
        after = wait_for(near, "chat", lambda pool: pool.replicas[0].ready and pool.token != before.token)
        assert after.token != before.token
        near.scale("chat", 2, token=before.token, generation=1)
        assert hollow.count("chat") == 2


def test_a_count_that_weir_has_taken_on_and_never_changed_is_no_hands(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 2))
    with opened(cluster.kubeconfig, cluster.name, "chat") as near:
        wait_for(near, "chat", lambda pool: pool.wanted == 2)
        near.claim(1, ["chat"])
        pool = wait_for(near, "chat", lambda pool: pool.token.split("/")[2] == "1")
        assert (pool.owner_of_count, pool.wanted) == ("weir", 2)
        cluster.set_count("chat", 3)
        wait_for(near, "chat", lambda pool: pool.owner_of_count == "hand")
        near.claim(2, ["chat"])  # another leader does not take it back
        pool = wait_for(near, "chat", lambda pool: pool.token.split("/")[2] == "2")
        assert (pool.owner_of_count, pool.wanted) == ("hand", 3)


SCALED_OBJECT = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"plural": "scaledobjects", "singular": "scaledobject", "kind": "ScaledObject"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""As much of KEDA as owns an HPA."""


def _of_keda(hollow: Namespace, hpa: dict[str, Any]) -> None:
    """The HPA as KEDA makes it for a ScaledObject."""
    with suppress(ApiException):  # another test's
        client.ApiextensionsV1Api(hollow.api).create_custom_resource_definition(SCALED_OBJECT)
    objects = client.CustomObjectsApi(hollow.api)
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat"}}
    made: list[dict[str, Any]] = []

    def create() -> bool:
        try:
            made.append(
                objects.create_namespaced_custom_object("keda.sh", "v1alpha1", hollow.name, "scaledobjects", body)
            )
        except ApiException as error:  # the definition is not served yet
            assert error.status == 404
        return bool(made)

    eventually(create)
    owner = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "name": "chat",
        "uid": made[0]["metadata"]["uid"],
    }
    hpa["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    hollow.create(hpa, manager="keda-operator")


@pytest.mark.parametrize(
    ("keeper", "said"),
    [("keda-operator", "KEDA sets the floor"), ("argocd-controller", "Argo CD keeps the floor"), ("kubectl", "")],
)
def test_a_floor_that_its_keeper_would_set_back_is_not_written(hollow: Namespace, keeper: str, said: str) -> None:
    hpa = autoscaler("cpu", "chat", 2, 9)
    hollow.create(deployment("chat", 2))
    if keeper == "keda-operator":
        _of_keda(hollow, hpa)
    else:
        hollow.create(hpa, manager=keeper)
    with opened(hollow.kubeconfig, hollow.name, "chat") as near:
        seen = wait_for(near, "chat", lambda pool: pool.autoscaler is not None).autoscaler
        assert seen is not None and seen.kept_by.startswith(said) and bool(seen.kept_by) is bool(said)
        with pytest.raises(InvalidError, match=said) if said else nullcontext():
            near.raise_floor("chat", 4, generation=1)
    floor = hollow.scaling.read_namespaced_horizontal_pod_autoscaler("cpu", hollow.name).spec.min_replicas
    assert floor == (2 if said else 4)


def test_a_leader_touches_only_what_a_policy_names_or_a_leader_has_marked(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 2), deployment("other", 2))
    with opened(cluster.kubeconfig, cluster.name, "chat", "other") as near:
        wait_for(near, "other", lambda pool: pool.wanted == 2)
        before = wait_for(near, "chat", lambda pool: pool.wanted == 2)
        near.claim(1, ["chat"])
        assert set(near.fences()) == {"Deployment “chat”", "Lease “weir-controller”"}
        near.claim(2, [])
        assert near.fences()["Deployment “chat”"] == 2, "an older leader is refused where one has been"
        with pytest.raises(StaleLeaderError):
            near.scale("chat", 5, token=before.token, generation=1)
        assert "Deployment “other”" not in near.fences()


def test_a_deployment_that_no_leader_may_mark_keeps_no_other_pool_waiting(hollow: Namespace, tmp_path: Path) -> None:
    """As a policy of the cluster may refuse every change of one that lacks a label."""
    hollow.create(deployment("bare", 1), deployment("chat", 1))

    def marks_bare(request: Request) -> bool:
        return writes(request) and request.path.endswith("/deployments/bare")

    with (
        controllers_way(hollow) as proxy,
        opened(proxy.kubeconfig(tmp_path), hollow.name, "bare", "chat") as near,
        proxy.fault(marks_bare, 403),
    ):
        wait_for(near, "chat", lambda pool: pool.wanted == 1)
        bare = wait_for(near, "bare", lambda pool: pool.wanted == 1)
        near.claim(1, ["bare", "chat"])
        chat = wait_for(near, "chat", lambda pool: pool.taken_on)
        near.scale("chat", 2, token=chat.token, generation=1)
        with pytest.raises(ForbiddenError):
            near.scale("bare", 2, token=bare.token, generation=1)
    assert (hollow.count("bare"), hollow.count("chat")) == (1, 2)


def test_an_older_leader_is_refused_whatever_it_has_seen(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 1), autoscaler("cpu", "chat", 1, 9))
    with (
        opened(cluster.kubeconfig, cluster.name, "chat") as old,
        opened(cluster.kubeconfig, cluster.name, "chat") as new,
    ):
        seen_by_old = wait_for(old, "chat", lambda pool: pool.wanted == 1 and pool.autoscaler is not None).token
        old.claim(1, ["chat"])
        new.claim(2, ["chat"])
        with pytest.raises(StaleLeaderError):  # it has not seen that another leads
            old.scale("chat", 5, token=seen_by_old, generation=1)
        fresh = wait_for(old, "chat", lambda pool: pool.token.split("/")[2] == "2").token
        with pytest.raises(StaleLeaderError, match="generation 2, and this process has 1"):  # it has
            old.scale("chat", 5, token=fresh, generation=1)
        with pytest.raises(StaleLeaderError):
            old.claim(1, ["chat"])
        new.publish(b"{}", generation=2)
        with pytest.raises(StaleLeaderError):
            old.publish(b"[]", generation=1)
        wait_for(new, "chat", lambda pool: pool.autoscaler is not None)
        new.raise_floor("chat", 3, generation=2)
        with pytest.raises(StaleLeaderError):
            old.raise_floor("chat", 5, generation=1)
        new.scale("chat", 2, token=fresh, generation=2)
        assert cluster.count("chat") == 2
    lease = client.CoordinationV1Api(cluster.api).read_namespaced_lease(LEASE, cluster.name).spec
    assert lease.lease_transitions == 2 and lease.holder_identity


def test_replicas_that_were_named_go_first_and_a_newer_leaders_choice_counts(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 4))
    with opened(hollow.kubeconfig, hollow.name, "chat") as near:
        pool = wait_for(near, "chat", lambda pool: sum(replica.ready for replica in pool.replicas) == 4)
        names = [replica.name for replica in pool.replicas]
        near.prefer_removal("chat", [names[0], names[1]], generation=1)
        near.prefer_removal("chat", [names[2]], generation=2)
        with pytest.raises(StaleLeaderError):  # the pod that the newer leader has chosen
            near.prefer_removal("chat", [names[2]], generation=1)
        near.scale("chat", 3, token=pool.token, generation=2)
        hollow.has_pods("chat", 3)
        assert {pod.metadata.name for pod in hollow.pods("chat")} == set(names) - {names[2]}


def test_replicas_that_are_no_longer_named_keep_no_cost(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 2))
    with opened(hollow.kubeconfig, hollow.name, "chat") as near:
        pool = wait_for(near, "chat", lambda pool: sum(replica.ready for replica in pool.replicas) == 2)
        for number in range(10):  # each before the watch has seen the one before
            near.prefer_removal("chat", [pool.replicas[number % 2].name], generation=1)
            assert costs(hollow) == ["-1001"]
        near.prefer_removal("chat", [], generation=1)
        assert costs(hollow) == []


def costs(hollow: Namespace) -> list[str]:
    every = [(pod.metadata.annotations or {}).get(DELETION_COST) for pod in hollow.pods("chat")]
    return [cost for cost in every if cost is not None]


def test_a_floor_is_raised_never_below_the_owners_and_never_above_the_maximum(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 2), autoscaler("cpu", "chat", 2, 6))
    with opened(cluster.kubeconfig, cluster.name, "chat") as near:
        wait_for(near, "chat", lambda pool: pool.autoscaler is not None)
        near.raise_floor("chat", 5, generation=1)
        pool = wait_for(near, "chat", lambda pool: pool.autoscaler is not None and pool.autoscaler.min_replicas == 5)
        assert pool.autoscaler and pool.autoscaler.owner_min_replicas == 2
        with pytest.raises(InvalidError, match="above the 6 that HorizontalPodAutoscaler “cpu” allows"):
            near.raise_floor("chat", 7, generation=1)
        near.raise_floor("chat", 1, generation=1)
        pool = wait_for(near, "chat", lambda pool: pool.autoscaler is not None and pool.autoscaler.min_replicas == 2)


def test_the_snapshot_is_published_once_per_text(cluster: Namespace) -> None:
    with opened(cluster.kubeconfig, cluster.name) as near:
        near.publish(b'{"version": 1}', generation=1)
        first = cluster.core.read_namespaced_config_map(SNAPSHOT, cluster.name)
        near.publish(b'{"version": 1}', generation=1)
        same = cluster.core.read_namespaced_config_map(SNAPSHOT, cluster.name)
        near.publish(b'{"version": 2}', generation=1)
        second = cluster.core.read_namespaced_config_map(SNAPSHOT, cluster.name)
        with pytest.raises(InvalidError, match="read it over HTTP"):
            near.publish(b" " * (MAX_BYTES + 1), generation=1)
    assert first.metadata.resource_version == same.metadata.resource_version != second.metadata.resource_version
    assert second.data == {SNAPSHOT_KEY: '{"version": 2}'}


def test_what_cannot_be_is_refused_with_its_remedy(cluster: Namespace) -> None:
    cluster.create(deployment("chat", 1))
    with opened(cluster.kubeconfig, cluster.name, "chat") as near:
        token = wait_for(near, "chat", lambda pool: pool.wanted == 1).token
        with pytest.raises(InvalidError, match="-1 replicas"):
            near.scale("chat", -1, token=token, generation=1)
        with pytest.raises(InvalidError, match="no token of a pool"):
            near.scale("chat", 1, token="1", generation=1)
        with pytest.raises(InvalidError, match="not in cluster near"):
            near.scale("other", 1, token=token, generation=1)
        with pytest.raises(InvalidError, match="only the leader writes"):
            near.scale("chat", 1, token=token, generation=0)
        with pytest.raises(ConflictError, match="has no replica “nobody”"):
            near.prefer_removal("chat", ["nobody"], generation=1)
        with pytest.raises(InvalidError, match="has no HorizontalPodAutoscaler"):
            near.raise_floor("chat", 1, generation=1)
        cluster.apps.delete_namespaced_deployment("chat", cluster.name)
        with pytest.raises((InvalidError, ConflictError)):
            near.scale("chat", 2, token=token, generation=1)
