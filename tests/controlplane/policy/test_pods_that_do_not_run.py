"""Pods of a real cluster that do not run: what Weir says of them, and that no replica is taken away for it."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controlplane.fleet.clusters.kubernetes.cluster import KubernetesCluster
from controlplane.fleet.clusters.port import PoolSeen
from controlplane.fleet.models import Replica
from controlplane.policy.act.discovery import discover
from controlplane.policy.core.decide import decide
from controlplane.policy.core.decision import Alarm
from controlplane.policy.core.memory import Memory
from controlplane.policy.observe.gather import _cluster, _counted
from tests.support.cluster.control_plane import GPU
from tests.support.cluster.namespace import Namespace, namespace
from tests.support.cluster.objects import IMAGE, deployment, gpu_quota
from tests.support.cluster.opened import opened, wait_for
from tests.support.policy import cases
from tests.support.policy.world import CLUSTER, POOL, fleet
from tests.support.wait import eventually

MISSING = "registry.invalid/chat:2"
NOWHERE = {"nodeSelector": {"gpu": "h200"}}
PENDING_MS = 10_000
"""Replicas without a node have waited for at least so long, and that is the deadline."""
LITTLE, MUCH = 0.1, 500.0
"""Requests/s that need `min`, and more than `max`."""


def wanted(near: KubernetesCluster, pool: str, rps: float, least: int = 1) -> tuple[int, dict[str, str]]:
    """What a policy of at most 10 replicas wants of the pool as it is seen now, with no slow steps, and its pages by kind."""
    seen = near.seen()
    now_ms = time.time_ns() // 1_000_000 + PENDING_MS
    known = cases.pool(arrived_rps=rps, in_flight=0.0, gpus_per_replica=None)
    facts = _counted(known, seen.pools[pool], seen, 0, now_ms)
    quick = {"stabilisation_s": 0, "cooldown_s": 0, "max_step": 10}
    policy = cases.scaling(min=least, scale_down=quick, scale_up={"max_step": 10}, pending_deadline_s=PENDING_MS / 1000)
    clusters = {"eu": _cluster(seen, {"h100": 1}, now_ms)}
    decision = decide(cases.seen(facts, now_ms=now_ms, clusters=clusters), [policy], Memory())
    count = decision.targets[cases.POOL].wanted
    assert count is not None
    return count, said(decision.alarms)


def said(alarms: tuple[Alarm, ...]) -> dict[str, str]:
    assert all(alarm.severity == "page" for alarm in alarms)
    return {alarm.kind: alarm.text for alarm in alarms}


def counts(pool: PoolSeen) -> tuple[int, int, int]:
    """Replicas that are ready, without a node, and at fault."""
    its = pool.replicas
    return sum(it.ready for it in its), sum(bool(it.pending_reason) for it in its), sum(bool(it.fault) for it in its)


def reasons(pool: PoolSeen) -> set[str]:
    """Of replicas without a node. The scheduler may say them of one before it knows all of the nodes."""
    return {it.pending_reason for it in pool.replicas if it.pending_reason}


def on(node: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with pods that are bound to the node."""
    manifest["spec"]["template"]["spec"]["nodeName"] = node
    return manifest


def test_replicas_of_a_node_that_stops_answering_are_said_and_none_is_taken_away(hollow: Namespace) -> None:
    with node_without_kubelet(hollow) as node, opened(hollow.kubeconfig, hollow.name, "lost") as near:
        hollow.create(on(node, deployment("lost", 2)))
        hollow.has_pods("lost", 2)
        for pod in hollow.pods("lost"):
            set_status(hollow, pod.metadata.name, True, **RUNS)
        wait_for(near, "lost", lambda pool: counts(pool) == (2, 0, 0))
        silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
        hollow.core.patch_node_status(node, {"status": {"conditions": [silent]}})
        wait_for(near, "lost", lambda pool: counts(pool) == (0, 0, 2))
        text = (
            f"2 replicas of chat-eu cannot run: its node {node} does not answer (Kubelet stopped posting node status)."
        )
        assert wanted(near, "lost", LITTLE)[1]["failing"] == text
        assert wanted(near, "lost", LITTLE)[0] == 2


@contextmanager
def node_without_kubelet(space: Namespace) -> Iterator[str]:
    """The name of a node whose pods are as a test says that they are."""
    name = f"of-{space.name}"
    space.core.create_node({"metadata": {"name": name}, "spec": {"unschedulable": True}})
    try:
        yield name
    finally:
        space.core.delete_node(name)


def change(space: Namespace, name: str, spec: dict[str, Any] | None = None, **template: Any) -> None:
    """What `kubectl edit` does."""
    body = {"spec": (spec or {}) | ({"template": {"spec": template}} if template else {})}
    space.apps.patch_namespaced_deployment(name, space.name, body, field_manager="kubectl-edit")


def set_status(space: Namespace, pod: str, ready: bool, **container: Any) -> None:
    """What a kubelet says of a pod."""
    status = {
        "phase": "Running",
        "podIP": "10.9.8.7",
        "podIPs": [{"ip": "10.9.8.7"}],
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [
            {"name": "server", "image": IMAGE, "imageID": "", "ready": ready, "restartCount": 0, **container}
        ],
    }
    space.core.patch_namespaced_pod_status(pod, space.name, {"status": status})


def waiting(reason: str, message: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


RUNS: dict[str, Any] = {"state": {"running": {}}}
ABSENT = waiting("ImagePullBackOff", f'Back-off pulling image "{MISSING}": not found')
ABSENT_TEXT = f'container server waits with ImagePullBackOff (Back-off pulling image "{MISSING}": not found)'
CRASHES = waiting("CrashLoopBackOff", "back-off 1m20s restarting failed container") | {
    "restartCount": 4,
    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
}
CRASHES_TEXT = (
    "container server waits with CrashLoopBackOff (back-off 1m20s restarting failed container), and ended last with exit "
    "code 137 (OOMKilled) after 4 restarts"
)


def test_pods_that_cannot_start_say_why_and_none_is_taken_away(hollow: Namespace) -> None:
    hollow.create(deployment("renamed", 2), deployment("late", 2, gated=True))
    with (
        opened(hollow.kubeconfig, hollow.name, "renamed", "missing", "crashing", "late") as near,
        node_without_kubelet(hollow) as node,
    ):
        # All of them, before any has run.
        hollow.create(on(node, deployment("missing", 2)))
        for replica in wait_for(near, "missing", lambda pool: len(pool.replicas) == 2).replicas:
            set_status(hollow, replica.name, False, **ABSENT)
        pool = wait_for(near, "missing", lambda pool: counts(pool) == (0, 0, 2))
        assert {it.fault for it in pool.replicas} == {ABSENT_TEXT} and (pool.rollout, pool.problem) == ("", "")
        page = {"failing": f"2 replicas of chat-eu cannot run: {ABSENT_TEXT}."}
        assert [wanted(near, "missing", rps) for rps in (LITTLE, MUCH)] == [(2, page), (10, page)]
        assert wanted(near, "missing", LITTLE, least=3) == (3, page)

        # One of them, which a new template has made.
        old = {it.name for it in wait_for(near, "renamed", lambda pool: counts(pool) == (2, 0, 0)).replicas}
        change(hollow, "renamed", nodeName=node, containers=[{"name": "server", "image": MISSING}])
        pool = wait_for(near, "renamed", lambda pool: len(pool.replicas) == 3)
        [new] = {it.name for it in pool.replicas} - old
        set_status(hollow, new, False, **ABSENT)
        text = (
            f"Deployment “renamed” is replacing 2 replicas of an older template (image of server: {IMAGE} → {MISSING})."
        )
        wait_for(near, "renamed", lambda pool: counts(pool) == (2, 0, 1) and pool.rollout == text)
        page = {"failing": f"1 replica of chat-eu cannot run: {ABSENT_TEXT}."}
        assert [wanted(near, "renamed", rps) for rps in (LITTLE, MUCH)] == [(2, page), (10, page)]

        crash(hollow, near, node)
        be_late(hollow, near)


def crash(hollow: Namespace, near: KubernetesCluster, node: str) -> None:
    """One of two, then both."""
    hollow.create(on(node, deployment("crashing", 2)))
    first, last = (it.name for it in wait_for(near, "crashing", lambda pool: len(pool.replicas) == 2).replicas)
    set_status(hollow, first, True, **RUNS)
    set_status(hollow, last, False, **CRASHES)
    pool = wait_for(near, "crashing", lambda pool: counts(pool) == (1, 0, 1))
    assert [it.fault for it in pool.replicas] == ["", CRASHES_TEXT]
    page = {"failing": f"1 replica of chat-eu cannot run: {CRASHES_TEXT}."}
    assert [wanted(near, "crashing", LITTLE, least) for least in (1, 2)] == [(1, page), (2, page)]
    set_status(hollow, first, False, **CRASHES)
    wait_for(near, "crashing", lambda pool: counts(pool) == (0, 0, 2))
    page = {"failing": f"2 replicas of chat-eu cannot run: {CRASHES_TEXT}."}
    assert wanted(near, "crashing", LITTLE) == (2, page)


def be_late(hollow: Namespace, near: KubernetesCluster) -> None:
    """They run, and one of two is not ready for longer than the Deployment allows."""
    pool = wait_for(near, "late", lambda pool: [bool(it.address) for it in pool.replicas] == [True, True])
    assert counts(pool) == (0, 0, 0) and wanted(near, "late", LITTLE) == (2, {})
    first, last = pool.replicas
    hollow.open_gate(first.name)
    change(hollow, "late", {"progressDeadlineSeconds": 1})
    pool = wait_for(near, "late", lambda pool: counts(pool) == (1, 0, 1))
    [fault] = [it.fault for it in pool.replicas if it.fault]
    assert re.fullmatch(r'it was not ready in time \(ReplicaSet "late-\w+" has timed out progressing\)', fault)
    assert wanted(near, "late", LITTLE, least=2) == (2, {"failing": f"1 replica of chat-eu cannot run: {fault}."})
    hollow.open_gate(last.name)
    wait_for(near, "late", lambda pool: counts(pool) == (2, 0, 0))


def test_a_rollout_that_finds_no_node_takes_nothing_back_and_says_what_it_changed(hollow: Namespace) -> None:
    beside, instead = deployment("beside", 3), deployment("instead", 3)
    beside["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    instead["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    hollow.create(beside, instead)
    with opened(hollow.kubeconfig, hollow.name, "beside", "instead") as near:
        for name, ready, older in (("beside", 3, "3 replicas"), ("instead", 2, "2 replicas")):
            wait_for(near, name, lambda pool: counts(pool) == (3, 0, 0))
            assert wanted(near, name, LITTLE) == (1, {})
            change(hollow, name, **NOWHERE)
            what = "(nodeSelector: none → gpu=h200)"
            under_way = f"Deployment “{name}” is replacing {older} of an older template {what}."
            pool = wait_for(
                near,
                name,
                lambda pool: pool.rollout == under_way and counts(pool) == (ready, 1, 0),  # noqa: B023
            )
            assert not pool.rollout_stuck and pool.wanted == 3
            [reason] = [it.pending_reason for it in pool.replicas if it.pending_reason]
            assert reason.startswith(
                "Unschedulable: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity"
            )
            assert wanted(near, name, LITTLE)[0] == 3

            change(hollow, name, {"progressDeadlineSeconds": 1})
            pool = wait_for(near, name, lambda pool: pool.rollout_stuck)
            stuck = f"The rollout of Deployment “{name}” {what} makes no progress: ReplicaSet "
            assert pool.rollout.startswith(stuck) and pool.rollout.endswith("has timed out progressing.")
            for rps in (LITTLE, MUCH):
                count, pages = wanted(near, name, rps)
                assert (count, pages.keys(), pages["rollout"]) == (3, {"rollout", "pending"}, pool.rollout)
                assert pages["pending"].startswith(
                    f"1 replica of chat-eu got no node within 10 s: {reason.rstrip('.')}."
                )

            hollow.apps.patch_namespaced_deployment(  # `kubectl rollout undo`
                name, hollow.name, {"spec": {"template": {"spec": {"nodeSelector": None}}}}
            )
            wait_for(near, name, lambda pool: counts(pool) == (3, 0, 0) and not pool.rollout)
            assert wanted(near, name, LITTLE) == (1, {})


@pytest.mark.django_db
def test_while_a_rollout_is_paused_replicas_come_and_go(hollow: Namespace) -> None:
    fleet()
    hollow.create(deployment(POOL, 2))
    with opened(hollow.kubeconfig, hollow.name, POOL, name=CLUSTER) as near:
        wait_for(near, POOL, lambda pool: counts(pool) == (2, 0, 0))
        hollow.apps.patch_namespaced_deployment(POOL, hollow.name, {"spec": {"paused": True}})
        change(hollow, POOL, **NOWHERE)
        pool = wait_for(near, POOL, lambda pool: bool(pool.rollout))
        assert (pool.rollout, pool.rollout_stuck) == (
            f"The rollout of Deployment “{POOL}” (nodeSelector: none → gpu=h200) is paused with 2 replicas of the older template.",
            False,
        )
        assert [wanted(near, POOL, rps) for rps in (LITTLE, MUCH)] == [(2, {}), (10, {})]
        gone, stays = discovered(near)
        hollow.core.delete_namespaced_pod(gone, hollow.name)
        hollow.set_count(POOL, 3)
        eventually(lambda: gone not in discovered(near) and len(discovered(near)) == 3)
        assert stays in discovered(near)
        wait_for(near, POOL, lambda pool: pool.rollout.endswith(" is paused with 3 replicas of the older template."))


def discovered(near: KubernetesCluster) -> list[str]:
    """The pool's replicas that gateways are told of."""
    discover([near.seen()], lambda: None)
    return sorted(Replica.objects.filter(pool__name=POOL, draining=False).values_list("name", flat=True))


def test_pods_that_are_never_created_are_said(hollow: Namespace) -> None:
    hollow.create(gpu_quota("gpus", 2))
    with opened(hollow.kubeconfig, hollow.name, "chat", "refused") as near:
        eventually(lambda: GPU in near.seen().gpus)
        hollow.create(deployment("chat", 3, gpus=1))
        pool = wait_for(near, "chat", lambda pool: counts(pool) == (2, 0, 0) and "exceeded quota" in pool.rollout)
        assert pool.rollout_stuck and (pool.wanted, len(pool.replicas)) == (3, 2)
        assert pool.rollout.startswith("Deployment “chat” cannot create replicas: pods ")
        assert f"exceeded quota: gpus, requested: requests.{GPU}=1, used: requests.{GPU}=2, limited: " in pool.rollout
        assert wanted(near, "chat", LITTLE) == (3, {"rollout": pool.rollout})
        gpus = "eu has 0 free GPUs of type h100, and 7 replicas more of chat-eu would need 7."
        assert wanted(near, "chat", MUCH) == (3, {"rollout": pool.rollout, "gpus": gpus})

        level = {"pod-security.kubernetes.io/enforce": "restricted"}
        hollow.core.patch_namespace(hollow.name, {"metadata": {"labels": level}})
        hollow.create(deployment("refused", 2))
        pool = wait_for(near, "refused", lambda pool: pool.rollout_stuck)
        assert (pool.wanted, pool.replicas, pool.problem) == (2, (), "")
        assert 'violates PodSecurity "restricted:latest": ' in pool.rollout and "runAsNonRoot != true" in pool.rollout
        page = {"rollout": pool.rollout}
        assert [wanted(near, "refused", LITTLE, least) for least in (1, 4)] == [(2, page), (4, page)]


@contextmanager
def taint(space: Namespace) -> Iterator[None]:
    """All nodes take only pods that tolerate it."""
    nodes = [node.metadata.name for node in space.core.list_node().items]
    for node in nodes:
        mark = {"key": "weir.dev/other-team", "effect": "NoSchedule"}
        space.core.patch_node(node, {"spec": {"taints": [mark]}})
    try:
        yield
    finally:
        for node in nodes:
            space.core.patch_node(node, {"spec": {"taints": None}})


def test_pods_that_their_node_rejects_again_and_again_are_said(hollow: Namespace) -> None:
    """Their ReplicaSet creates others at once, and its Deployment says that it makes progress."""
    hollow.create(on("gpu-0", deployment("rejected", 2, gpus=50)))
    with opened(hollow.kubeconfig, hollow.name, "rejected") as near:
        said = "nodes reject its pods with OutOfnvidia.com/gpu (Pod was rejected: Node didn't have enough resource"
        pool = wait_for(near, "rejected", lambda pool: any(it.fault.startswith(said) for it in pool.replicas))
        assert not any(it.ready for it in pool.replicas)
        change(hollow, "rejected", nodeName=None, containers=[{"name": "server", "resources": {"limits": {GPU: "1"}}}])
        pool = wait_for(near, "rejected", lambda pool: counts(pool) == (2, 0, 0))
        assert {it.fault for it in pool.replicas} == {""}


def test_a_taint_that_nobody_tolerates_is_the_reason_of_replicas_without_a_node(hollow: Namespace) -> None:
    hollow.create(deployment("chat", 1))
    with opened(hollow.kubeconfig, hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: counts(pool) == (1, 0, 0))
        with taint(hollow):
            hollow.set_count("chat", 3)
            pool = wait_for(near, "chat", lambda pool: counts(pool) == (1, 2, 0) and len(reasons(pool)) == 1)
            [reason] = reasons(pool)
            assert reason.startswith("Unschedulable: 0/2 nodes are available: 2 node(s) had untolerated taint")
            text = (
                f"2 replicas of chat-eu got no node within 10 s: {reason.rstrip('.')}. "
                "They stay asked for, and no more are until they have one."
            )
            assert wanted(near, "chat", MUCH) == (3, {"pending": text})
        wait_for(near, "chat", lambda pool: counts(pool) == (3, 0, 0))


def test_gpus_of_other_namespaces_are_not_free_and_a_replica_takes_as_many_as_its_template_says(
    hollow: Namespace,
) -> None:
    assert hollow.plane
    other = next(namespace(hollow.kubeconfig, hollow.plane))
    hollow.create(deployment("chat", 1, gpus=2))
    with opened(hollow.kubeconfig, hollow.name, "chat") as near:
        wait_for(near, "chat", lambda pool: counts(pool) == (1, 0, 0))
        eventually(lambda: near.seen().gpus[GPU].requested == 2, lambda: near.seen().gpus)  # those of earlier tests end
        other.create(deployment("theirs", 2, gpus=1), deployment("without", 1))
        eventually(lambda: near.seen().gpus[GPU].requested == 4, lambda: near.seen().gpus)
        text = "eu has 4 free GPUs of type h100, and 9 replicas more of chat-eu would need 18."
        assert wanted(near, "chat", MUCH) == (3, {"gpus": text})
        other.set_count("theirs", 0)
        eventually(lambda: near.seen().gpus[GPU].requested == 2)
