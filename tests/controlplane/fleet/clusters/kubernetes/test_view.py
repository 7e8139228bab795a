"""What is made of Kubernetes' objects and answers, without a cluster."""

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from controlplane.fleet.clusters.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    ThrottledError,
    UnreachableError,
)
from controlplane.fleet.clusters.kubernetes import faults, view
from controlplane.fleet.clusters.kubernetes.client import (
    DeniedError,
    ExpiredError,
    FieldConflictError,
    MissingError,
    UnauthorizedError,
    error_of,
)
from controlplane.fleet.clusters.kubernetes.objects import (
    Autoscaler,
    Deployment,
    EndpointSlice,
    Expression,
    Node,
    Pod,
    Selector,
)
from controlplane.fleet.clusters.kubernetes.view import Token
from controlplane.fleet.clusters.port import PoolBinding, PoolSeen, ReplicaSeen


@pytest.mark.parametrize("manager", ["", "weir", "kubectl-edit/v1/é 1"])
def test_a_token_is_read_as_it_was_written(manager: str) -> None:
    token = Token("6f1c0c5e-8d4e-4f5e-9c63-0d9a6a3a8c1b", "1000000007", 12, 3, manager)
    assert Token.parse(str(token)) == token


@pytest.mark.parametrize(
    ("selector", "picks"),
    [
        (Selector(), True),
        (Selector({"app": "chat"}), True),
        (Selector({"app": "chat", "tier": "x"}), False),
        (Selector({}, (Expression("app", "In", ("chat", "other")),)), True),
        (Selector({}, (Expression("app", "NotIn", ("chat",)),)), False),
        (Selector({}, (Expression("tier", "NotIn", ("x",)),)), True),
        (Selector({}, (Expression("app", "Exists"),)), True),
        (Selector({}, (Expression("tier", "DoesNotExist"),)), True),
        (Selector({"app": "chat"}, (Expression("app", "Gt", ("1",)),)), False),
    ],
)
def test_a_selector_picks_as_kubernetes_does(selector: Selector, picks: bool) -> None:
    assert view.matches(selector, {"app": "chat"}) is picks


def deployment(**metadata: object) -> Deployment:
    return msgspec.convert({"metadata": {"name": "chat", "uid": "u", **metadata}, "spec": {"replicas": 2}}, Deployment)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"metadata": {"name": "chat", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is being deleted"),
        ({"metadata": {"name": "chat"}}, ""),
    ],
)
def test_a_workload_that_cannot_be_managed_says_why(change: dict[str, object], problem: str) -> None:
    seen = view.pool_seen(PoolBinding("chat", "chat", "openai"), msgspec.convert(change, Deployment), (), (), {})
    assert problem in seen.problem and bool(problem) == bool(seen.problem)


def test_an_annotation_that_is_no_generation_counts_as_none() -> None:
    assert view.fence_of(deployment(annotations={"weir.dev/leader-generation": "x"}).metadata.annotations) == 0
    assert view.fence_of(deployment(annotations={"weir.dev/leader-generation": "7"}).metadata.annotations) == 7


def pod(ports: list[dict[str, object]], ip: str = "10.0.0.1", **status: object) -> Pod:
    spec = {"nodeName": "gpu-0", "containers": [{"ports": ports, "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    return msgspec.convert(
        {"metadata": {"name": "chat-1"}, "spec": spec, "status": {"podIP": ip, "conditions": conditions, **status}}, Pod
    )


@pytest.mark.parametrize(
    ("protocol", "ports", "service", "address"),
    [
        ("openai", [], {}, "http://10.0.0.1:8000/v1"),
        ("openai", [{"containerPort": 9000}], {}, "http://10.0.0.1:9000/v1"),
        ("openai", [{"containerPort": 9000}, {"containerPort": 9001, "name": "http"}], {}, "http://10.0.0.1:9001/v1"),
        ("openai", [{"containerPort": 9001, "name": "http"}], {"http": 9002}, "http://10.0.0.1:9002/v1"),
        ("triton", [], {}, "10.0.0.1:8001"),
        ("triton", [{"containerPort": 7001, "name": "grpc"}], {}, "10.0.0.1:7001"),
    ],
)
def test_a_replica_is_reached_at_the_port_that_is_named(
    protocol: str, ports: list[dict[str, object]], service: dict[str, int], address: str
) -> None:
    binding = msgspec.convert({"pool": "chat", "workload": "chat", "protocol": protocol}, PoolBinding)
    assert view.replica_seen(binding, pod(ports), service).address == address


def test_an_address_of_ipv6_is_a_url_too_and_a_replica_without_any_is_not_ready() -> None:
    binding = PoolBinding("chat", "chat", "openai")
    assert view.replica_seen(binding, pod([], "fd00::1"), {}).address == "http://[fd00::1]:8000/v1"
    bare = view.replica_seen(binding, pod([], ""), {})
    assert (bare.address, bare.ready) == ("", False)


def test_a_container_that_does_not_start_says_why() -> None:
    def seen(**status: object) -> ReplicaSeen:
        not_ready = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]
        its = pod([], conditions=not_ready, containerStatuses=[{"name": "main", **status}])
        return view.replica_seen(PoolBinding("chat", "chat", "openai"), its, {})

    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image."}}
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    crashes = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert seen(state=waiting).fault == "container main waits with ImagePullBackOff (no such image)"
    looping = (
        "container main waits with CrashLoopBackOff, and ended last with exit code 137 (OOMKilled) after 4 restarts"
    )
    assert seen(state=crashes, lastState=killed, restartCount=4).fault == looping
    assert "exit code 137 (OOMKilled) after 2 restarts" in seen(lastState=killed, restartCount=2).fault
    for status in ({"state": {"waiting": {"reason": "ContainerCreating"}}}, {"lastState": killed, "restartCount": 1}):
        assert seen(**status).fault == ""
    done = {"name": "fetch", "restartCount": 3, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    loads = pod([], conditions=[], initContainerStatuses=[done], containerStatuses=[{"name": "main"}])
    assert view.replica_seen(PoolBinding("chat", "chat", "openai"), loads, {}).fault == ""
    assert seen(state=waiting).pending_reason == "" and seen(state=waiting).pending_since_ms is None


def rolling(older: int = 1, paused: bool = False, conditions: list[dict[str, str]] | None = None) -> Deployment:
    template = {"spec": {"nodeSelector": {"gpu": "h200"}, "containers": [{"name": "main", "image": "chat:2"}]}}
    status = {"replicas": 4, "updatedReplicas": 4 - older, "conditions": conditions or []}
    spec = {"replicas": 4, "paused": paused, "template": template}
    return msgspec.convert({"metadata": {"name": "chat"}, "spec": spec, "status": status}, Deployment)


def node(status: str, **its: str) -> Node:
    conditions = [{"type": "Ready", "status": status, **its}, {"type": "DiskPressure", "status": "False"}]
    return msgspec.convert({"metadata": {"name": "gpu-0"}, "status": {"conditions": conditions}}, Node)


@pytest.mark.parametrize(
    ("its", "fault"),
    [
        (node("True"), ""),
        (
            node("Unknown", reason="NodeStatusUnknown", message="Kubelet stopped posting node status."),
            "its node gpu-0 does not answer (Kubelet stopped posting node status)",
        ),
        (node("False", reason="KubeletNotReady"), "its node gpu-0 is not ready (KubeletNotReady)"),
    ],
)
def test_a_replica_on_a_node_that_does_not_answer_is_neither_ready_nor_starting(its: Node, fault: str) -> None:
    for conditions in ([{"type": "Ready", "status": "True"}], [{"type": "Ready", "status": "False", "reason": "x"}]):
        silent = faults.silent_nodes([its])
        seen = view.replica_seen(PoolBinding("chat", "chat", "openai"), pod([], conditions=conditions), {}, "", silent)
        assert (seen.fault, seen.lost) == (fault, bool(fault))
        assert seen.ready is (not fault and conditions[0]["status"] == "True")


@pytest.mark.parametrize(
    ("ready", "lost"),
    [
        ({"status": "False"}, True),
        ({"status": "False", "reason": "ReadinessGatesNotReady"}, False),
        ({"status": "True"}, False),
    ],
)
def test_where_nodes_may_not_be_read_the_node_controllers_mark_says_it(ready: dict[str, str], lost: bool) -> None:
    conditions = [{"type": "Ready", **ready}, {"type": "ContainersReady", "status": "True"}]
    seen = view.replica_seen(PoolBinding("chat", "chat", "openai"), pod([], conditions=conditions), {})
    assert (seen.lost, seen.fault) == (lost, "its node does not answer" if lost else "")


def test_a_rollout_is_named_with_what_its_template_changes() -> None:
    old = msgspec.convert(
        {"metadata": {"name": "chat-1"}, "spec": {"containers": [{"name": "main", "image": "chat:1"}]}}, Pod
    )
    changes = "(nodeSelector: none → gpu=h200, image of main: chat:1 → chat:2)"
    stuck = [{"type": "Progressing", "status": "False", "message": "has timed out"}]
    refused = [{"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity"}]
    assert faults.rollout_of(rolling(0), [old]) == ("", False)
    assert faults.rollout_of(rolling(), [old]) == (
        f"Deployment “chat” is replacing 1 replica of an older template {changes}.",
        False,
    )
    text, is_stuck = faults.rollout_of(rolling(conditions=stuck), [old])
    assert (text, is_stuck) == (f"The rollout of Deployment “chat” {changes} makes no progress: has timed out", True)
    text, is_stuck = faults.rollout_of(rolling(paused=True), [old])
    assert "is paused with 1 replica of the older template" in text and not is_stuck
    assert faults.rollout_of(rolling(0, conditions=refused), [old]) == (
        "Deployment “chat” cannot create replicas: violates PodSecurity",
        True,
    )


def test_replicas_that_are_not_ready_when_the_first_rollout_times_out_are_at_fault() -> None:
    timed_out = [
        {"type": "Progressing", "status": "False", "message": 'ReplicaSet "chat-1" has timed out progressing.'}
    ]
    text = 'it was not ready in time (ReplicaSet "chat-1" has timed out progressing)'
    starts = pod([], conditions=[{"type": "Ready", "status": "False"}])
    waits = pod([], conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}])
    crashes = pod([], conditions=[], containerStatuses=[{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}])

    def faults_of(deployment: Deployment) -> list[str]:
        pods = [pod([]), starts, waits, crashes]
        seen = view.pool_seen(PoolBinding("chat", "chat", "openai"), deployment, pods, (), {})
        return [replica.fault for replica in seen.replicas]

    crash = "its container waits with CrashLoopBackOff"
    assert faults_of(rolling(0, conditions=timed_out)) == ["", text, "", crash]
    assert faults_of(rolling(0)) == ["", "", "", crash]
    assert faults_of(rolling(1, conditions=timed_out)) == ["", "", "", crash]  # said of the rollout


def test_one_pod_that_its_node_rejects_is_no_evidence_nor_are_those_from_before_one_was_ready() -> None:
    def made(second: int, **status: object) -> Pod:
        its = pod([], **status)
        return structs.replace(
            its,
            metadata=structs.replace(its.metadata, creationTimestamp=datetime(2026, 3, 1, 9, 0, second, tzinfo=UTC)),
        )

    def rejected(second: int) -> Pod:
        return made(second, phase="Failed", reason="OutOfcpu", message="Pod was rejected: no room.", conditions=[])

    starts, text = made(9, conditions=[]), "nodes reject its pods with OutOfcpu (Pod was rejected: no room)"
    assert faults.rejection_of([rejected(1)], [starts]) == ""
    assert faults.rejection_of([rejected(1), rejected(2)], [starts]) == text
    assert faults.rejection_of([rejected(1), rejected(4)], [made(3), starts]) == ""
    assert faults.rejection_of([rejected(4), rejected(5)], [made(3), starts]) == text


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (401, UnauthorizedError), (403, ForbiddenError), (404, MissingError), (409, ConflictError), (410, ExpiredError),
        (422, InvalidError), (400, InvalidError), (429, ThrottledError), (500, UnreachableError), (503, UnreachableError),
    ],
)  # fmt: skip
def test_a_status_is_an_error_of_its_family(code: int, kind: type[ClusterError]) -> None:
    error = error_of("GET /x", code, {}, b'{"message": "no", "reason": "Because"}')
    assert type(error) is kind and "GET /x" in str(error) and "Because: no" in str(error)
    assert type(error_of("GET /x", code, {}, b"<html>of a proxy</html>")) is kind


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, b"{}", 7.0),
        ({"Retry-After": "3600"}, b"{}", 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"{}", 1.0),
        ({}, b'{"details": {"retryAfterSeconds": 3}}', 3.0),
        ({}, b"{}", 1.0),
    ],
)
def test_how_long_to_wait_is_what_the_server_says_within_bounds(
    headers: dict[str, str], body: bytes, seconds: float
) -> None:
    error = error_of("PATCH /x", 429, headers, body)
    assert isinstance(error, ThrottledError) and error.retry_after_s == seconds


def test_a_field_of_somebody_else_is_no_ordinary_conflict() -> None:
    body = (
        b'{"message": "conflict", "details": {"causes": [{"reason": "FieldManagerConflict", '
        b'"message": "conflict with \\"helm\\"", "field": ".spec.x"}]}}'
    )
    error = error_of("PATCH /x", 409, {}, body)
    assert isinstance(error, FieldConflictError) and error.fields == ((".spec.x", 'conflict with "helm"'),)


def test_an_endpoint_that_is_not_ready_is_a_gateway_all_the_same() -> None:
    raw = {
        "metadata": {"name": "gateway-1", "labels": {"kubernetes.io/service-name": "gateway"}},
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
            {"addresses": ["fd00::3"], "conditions": {}},
        ],
    }
    urls = view.gateway_urls([msgspec.convert(raw, EndpointSlice)], "gateway")
    assert urls == {"http://10.0.0.1:8080": True, "http://10.0.0.2:8080": False, "http://[fd00::3]:8080": True}


def test_a_gateway_that_ends_is_known_until_it_has_to_be_gone() -> None:
    tier = PoolSeen(
        "gateway:api",
        replicas=(
            ReplicaSeen("ready", "gateway:api", "http://10.0.0.1:8080/v1", created_ms=1, ready=True),
            ReplicaSeen("ends", "gateway:api", "http://10.0.0.2:8080/v1", 1, ready=True, terminating=True, ends_ms=9),
            ReplicaSeen("fails", "gateway:api", "http://10.0.0.3:8080/v1", created_ms=1),
            ReplicaSeen("crashes", "gateway:api", "http://10.0.0.4:8080/v1", created_ms=1, pending_reason="CrashLoop"),
            ReplicaSeen(
                "lost", "gateway:api", "http://10.0.0.5:8080/v1", 1, fault="its node does not answer", lost=True
            ),
            ReplicaSeen("faulty", "gateway:api", "http://10.0.0.6:8080/v1", 1, fault="container main waits"),
            ReplicaSeen("waits", "gateway:api", "", created_ms=1, pending_reason="Unschedulable"),
        ),
    )
    of_service = {"http://10.0.0.9:8080": True, "http://10.0.0.8:8080": False, "http://10.0.0.4:8080": False}
    ready, others = view.gateways_seen([tier], of_service)
    assert ready == ("http://10.0.0.1:8080", "http://10.0.0.9:8080")
    assert others == {"http://10.0.0.2:8080": 9} | dict.fromkeys(
        ("http://10.0.0.3:8080", "http://10.0.0.5:8080", "http://10.0.0.8:8080")
    )


@pytest.mark.parametrize(("managers", "own"), [(["weir"], 2), (["weir", "argo"], 6), (["kubectl-edit"], 6), ([], 6)])
def test_who_sets_a_floor_after_weir_is_its_owner(managers: list[str], own: int) -> None:
    fields = [{"manager": name, "fieldsV1": {"f:spec": {"f:minReplicas": {}}}} for name in managers]
    metadata = {"name": "cpu", "annotations": {"weir.dev/owner-min-replicas": "2"}, "managedFields": fields}
    raw = msgspec.json.encode({"metadata": metadata, "spec": {"minReplicas": 6, "maxReplicas": 9}})
    scaler = msgspec.json.decode(raw, type=Autoscaler)
    assert view.own_floor(scaler) == own


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:minReplicas": {}}}}]}, ""),
        (
            {"ownerReferences": [{"kind": "ScaledObject", "name": "chat", "controller": True}]},
            "KEDA sets the floor of HorizontalPodAutoscaler “cpu” back to what ScaledObject “chat” says",
        ),
        (
            {"managedFields": [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:minReplicas": {}}}}]},
            "Argo CD keeps the floor of HorizontalPodAutoscaler “cpu” as Git says: add /spec/minReplicas to ignoreDifferences",
        ),
        (
            {"managedFields": [{"manager": "kustomize-controller", "fieldsV1": {"f:spec": {"f:minReplicas": {}}}}]},
            "Flux keeps the floor",
        ),
        ({"managedFields": [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:maxReplicas": {}}}}]}, ""),
        (
            {
                "annotations": {"weir.dev/floor": "weir"},
                "managedFields": [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:minReplicas": {}}}}],
            },
            "",
        ),
    ],
)
def test_a_floor_that_somebody_would_set_back_is_not_weirs(metadata: dict[str, object], said: str) -> None:
    raw = {"metadata": {"name": "cpu", **metadata}, "spec": {"minReplicas": 2, "maxReplicas": 9}}
    kept_by = view.autoscaler_seen(msgspec.json.decode(msgspec.json.encode(raw), type=Autoscaler)).kept_by
    assert kept_by.startswith(said) if said else kept_by == ""


@pytest.mark.parametrize(
    ("message", "kind", "said"),
    [
        (
            'deployments.apps "x" is forbidden: User "weir" cannot patch resource "deployments/scale"',
            ForbiddenError,
            "Weir's role",
        ),
        ('deployments.apps "x" is forbidden: exceeded quota: few', DeniedError, "change the rule"),
        (
            "deployments.apps \"x\" is forbidden: ValidatingAdmissionPolicy 'no' denied request: no",
            DeniedError,
            "change the rule",
        ),
        ('admission webhook "no.example.com" denied the request: no', DeniedError, "change the rule"),
    ],
)
def test_what_admission_refuses_is_no_missing_right(message: str, kind: type[ClusterError], said: str) -> None:
    for reason in ("Forbidden", "no") if "webhook" in message else ("Forbidden",):  # a webhook gives its own
        error = error_of("PATCH /x", 403, {}, msgspec.json.encode({"message": message, "reason": reason}))
        assert type(error) is kind and said in str(error)
