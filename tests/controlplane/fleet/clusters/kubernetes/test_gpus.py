"""GPUs of Kubernetes' objects, without a cluster."""

import msgspec
import pytest

from controlplane.fleet.clusters.kubernetes import gpus
from controlplane.fleet.clusters.kubernetes.objects import Node, Pod, Quota
from controlplane.fleet.clusters.port import GpusSeen

RESOURCE = "nvidia.com/gpu"


def pod(node: str) -> Pod:
    """Two GPUs."""
    spec = {"nodeName": node, "containers": [{"resources": {"limits": {RESOURCE: "2"}}}]}
    return msgspec.convert({"metadata": {"name": "chat-1"}, "spec": spec}, Pod)


def test_gpus_that_nobody_can_use_do_not_count() -> None:
    def node(name: str, **more: object) -> Node:
        ready = [{"type": "Ready", "status": more.pop("ready", "True")}]
        status = {"allocatable": {RESOURCE: "4", "cpu": "8"}, "conditions": ready}
        return msgspec.convert({"metadata": {"name": name}, "status": status, "spec": more}, Node)

    nodes = [node("gpu-0"), node("cordoned", unschedulable=True), node("away", ready="Unknown")]
    assert gpus.gpus_seen((), nodes, [pod("gpu-0")]) == {RESOURCE: GpusSeen(4, 2)}
    moved = [pod("cordoned"), pod("away")]
    assert gpus.gpus_seen((), nodes, [pod("gpu-0"), *moved]) == {RESOURCE: GpusSeen(4, 2)}
    quota = msgspec.convert(
        {
            "metadata": {"name": "q"},
            "status": {"hard": {f"requests.{RESOURCE}": "3"}, "used": {f"requests.{RESOURCE}": "2"}},
        },
        Quota,
    )
    assert gpus.gpus_seen([quota], nodes, [pod("gpu-0")]) == {RESOURCE: GpusSeen(3, 2, True)}
    assert gpus.gpus_seen((), (), [pod("gpu-0")]) == {}


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({}, True),
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "NotTerminating", "operator": "Exists"}]}}, True),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}, False),
    ],
)
def test_a_quota_on_some_pods_alone_is_none_of_every_pool(spec: dict[str, object], counts: bool) -> None:
    name = f"requests.{RESOURCE}"
    status = {"hard": {name: "1"}, "used": {name: "0"}}
    quota = msgspec.convert({"metadata": {"name": "jobs"}, "spec": spec, "status": status}, Quota)
    assert gpus.gpus_seen([quota], (), ()) == ({RESOURCE: GpusSeen(1, 0, True)} if counts else {})


@pytest.mark.parametrize(
    ("hard", "tightest"), [("9", GpusSeen(6, 2)), ("6", GpusSeen(6, 2)), ("5", GpusSeen(5, 4, True))]
)
def test_a_quota_has_what_waits_for_a_node_and_nodes_have_not(hard: str, tightest: GpusSeen) -> None:
    """The tightest is the one that has the least once those that wait have a node."""
    name = f"requests.{RESOURCE}"
    status = {"hard": {name: hard}, "used": {name: "4"}}
    quota = msgspec.convert({"metadata": {"name": "q"}, "status": status}, Quota)
    node = msgspec.convert({"metadata": {"name": "gpu-0"}, "status": {"allocatable": {RESOURCE: "6"}}}, Node)
    assert gpus.gpus_seen([quota], [node], [pod("gpu-0"), pod("")]) == {RESOURCE: tightest}
