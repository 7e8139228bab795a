"""The Role of deploy/kubernetes: everything that Weir does works with it, and nothing that Weir does not do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from controlplane.fleet.clusters.errors import ForbiddenError
from controlplane.fleet.clusters.port import GpusSeen
from deploy.local.process import ROOT
from tests.support.cluster.namespace import Namespace, namespace
from tests.support.cluster.objects import autoscaler, deployment
from tests.support.cluster.opened import opened, wait_for
from tests.support.cluster.proxy import Proxy, Rule, used_by
from tests.support.wait import eventually

KUBERNETES = ROOT / "deploy/kubernetes"


@pytest.fixture
def account(hollow: Namespace) -> str:
    """The controller's account, with the rights that deploy/kubernetes gives it in this namespace; its certificate's name."""
    assert hollow.plane
    hollow.create(*yaml.safe_load_all((KUBERNETES / "base/rbac.yaml").read_text()))
    user = f"system:serviceaccount:{hollow.name}:weir-controller"
    hollow.plane.write_kubeconfig(
        hollow.plane.folder / hollow.name, user, "system:serviceaccounts", "system:authenticated"
    )
    return hollow.name


@pytest.fixture
def as_account(hollow: Namespace, account: str) -> Iterator[Proxy]:
    assert hollow.plane
    made = Proxy(hollow.plane, account)
    yield made
    made.close()


def test_all_that_weir_does_is_allowed_and_each_right_is_used(
    hollow: Namespace, as_account: Proxy, account: str, tmp_path: Path
) -> None:
    hollow.create(deployment("chat", 2), autoscaler("cpu", "chat", 1, 9))
    with opened(as_account.kubeconfig(tmp_path), hollow.name, "chat") as near:
        pool = wait_for(near, "chat", lambda pool: sum(replica.ready for replica in pool.replicas) == 2)
        wait_for(near, "chat", lambda _: near.seen().watching)
        near.claim(1, ["chat"])
        near.publish(b"{}", generation=1)
        near.raise_floor("chat", 2, generation=1)
        near.prefer_removal("chat", [pool.replicas[0].name], generation=1)
        marked = [
            "ConfigMap “weir-snapshot”",
            "Deployment “chat”",
            "HorizontalPodAutoscaler “cpu”",
            "Lease “weir-controller”",
        ]
        assert near.fences() == dict.fromkeys([*marked, f"Pod “{pool.replicas[0].name}”"], 1)
        near.scale("chat", 1, token=near.seen().pools["chat"].token, generation=1)
        assert near.seen().problem == "" and near.seen().gpus == {}  # nodes may not be read
    used = {rule for request in as_account.requests for rule in [used_by(request)] if rule[2] != "nodes"}
    assert used == granted()


def granted() -> set[Rule]:
    role = next(
        manifest
        for manifest in yaml.safe_load_all((KUBERNETES / "base/rbac.yaml").read_text())
        if manifest["kind"] == "Role"
    )
    return {
        (verb, group, resource, name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def test_everything_else_is_refused(hollow: Namespace, account: str) -> None:
    """Every verb on every resource that the server has, in this namespace, in another, and for the whole cluster."""
    assert hollow.plane
    allowed = granted()
    settings = client.Configuration()
    config.load_kube_config(str(hollow.plane.folder / account), client_configuration=settings)
    reviews = client.AuthorizationV1Api(client.ApiClient(settings))
    surplus = []
    for group, resource, verbs in resources(hollow):
        for where in (hollow.name, "default", ""):
            for verb in verbs:
                right = (verb, group, resource, "")
                if where == hollow.name and right in allowed:
                    continue
                attributes = {"namespace": where, "verb": verb, "group": group, "resource": resource.partition("/")[0]}
                attributes["subresource"] = resource.partition("/")[2]
                review: Any = {"spec": {"resourceAttributes": attributes}}
                if reviews.create_self_subject_access_review(review).status.allowed:
                    surplus.append((where, *right))
    assert [right for right in surplus if right[2] not in ("authorization.k8s.io", "authentication.k8s.io")] == []


def resources(hollow: Namespace) -> Iterator[tuple[str, str, list[str]]]:
    """Group, resource and verbs of each resource of the server."""
    assert hollow.plane
    groups = ["/api/v1"] + [
        f"/apis/{entry['preferredVersion']['groupVersion']}" for entry in hollow.plane.get("/apis")["groups"]
    ]
    for path in groups:
        listed = hollow.plane.get(path)
        group = "" if path == "/api/v1" else path.split("/")[2]
        for entry in listed["resources"]:
            yield group, entry["name"], entry["verbs"]


def test_with_the_component_nodes_are_counted_and_their_gpus_that_other_namespaces_have(
    hollow: Namespace, as_account: Proxy, tmp_path: Path
) -> None:
    assert hollow.plane
    manifests = list(yaml.safe_load_all((KUBERNETES / "components/nodes/rbac.yaml").read_text()))
    for manifest in manifests:
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = hollow.name
    hollow.create(*manifests)
    other = next(namespace(hollow.kubeconfig, hollow.plane))
    other.create(deployment("theirs", 1, gpus=2))
    with opened(as_account.kubeconfig(tmp_path), hollow.name) as near:
        eventually(lambda: near.seen().gpus.get("nvidia.com/gpu") == GpusSeen(8, 2), lambda: near.seen())
    other.apps.delete_namespaced_deployment("theirs", other.name)


def test_a_right_that_is_missing_is_named(hollow: Namespace, tmp_path: Path) -> None:
    assert hollow.plane
    hollow.plane.write_kubeconfig(hollow.plane.folder / f"{hollow.name}-none", "nobody", "system:authenticated")
    with opened(hollow.plane.folder / f"{hollow.name}-none", hollow.name, "chat") as near:
        eventually(lambda: "403" in near.seen().problem)
        seen = near.seen()
        assert seen.seen_ms is None and seen.pools == {}
        assert "cannot list resource" in seen.problem and "Give Weir's role this verb" in seen.problem
        with pytest.raises(ForbiddenError):
            near.claim(1, ["chat"])
