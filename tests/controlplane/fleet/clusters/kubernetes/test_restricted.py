"""Namespaces that enforce the Pod Security Standard `restricted`: https://kubernetes.io/docs/concepts/security/pod-security-standards/"""

from dataclasses import replace

import pytest

from controlplane.fleet.core.manifests.render import render
from controlplane.fleet.core.manifests.values import WorkloadValue
from tests.support.cluster.namespace import Namespace
from tests.support.cluster.objects import deployment
from tests.support.cluster.opened import opened
from tests.support.deploy.workloads import ALL, AROUND
from tests.support.wait import eventually

LEVELS = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@pytest.fixture
def restricted(hollow: Namespace) -> Namespace:
    hollow.core.patch_namespace(hollow.name, {"metadata": {"labels": LEVELS}})
    return hollow


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.kind)
def test_pods_of_each_kind_are_created_where_restricted_is_enforced(
    restricted: Namespace, workload: WorkloadValue
) -> None:
    manifests = render(replace(workload, namespace=restricted.name), AROUND)
    with opened(restricted.kubeconfig, restricted.name) as near:
        differences = near.apply(manifests, dry_run=False)
    assert [difference.warnings for difference in differences] == [()] * len(manifests)
    label = f"app.kubernetes.io/instance={workload.name}"
    eventually(lambda: restricted.core.list_namespaced_pod(restricted.name, label_selector=label).items)


def test_what_the_cluster_warns_of_is_said_before_it_is_applied(restricted: Namespace) -> None:
    with opened(restricted.kubeconfig, restricted.name) as near:
        [difference] = near.apply([deployment("chat")], dry_run=True)
    [warning] = difference.warnings
    assert warning.startswith('would violate PodSecurity "restricted:latest"') and "runAsNonRoot != true" in warning
