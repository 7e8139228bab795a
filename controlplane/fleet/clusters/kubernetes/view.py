"""From Kubernetes' objects to what the port shows of pools. Pure: no I/O, no clock."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controlplane.fleet.clusters.kubernetes import faults
from controlplane.fleet.clusters.kubernetes.gpus import gpus_of
from controlplane.fleet.clusters.kubernetes.objects import (
    ENDED,
    Autoscaler,
    Condition,
    Deployment,
    EndpointSlice,
    Field,
    Labels,
    Pod,
    Selector,
    ms,
)
from controlplane.fleet.clusters.kubernetes.paths import FENCE, FLOOR, MANAGER, OWN_FLOOR
from controlplane.fleet.clusters.port import HAND, WEIR, AutoscalerSeen, PoolBinding, PoolSeen, ReplicaSeen

DEFAULT_PORTS = {"openai": {"http": 8000}, "triton": {"grpc": 8001, "http": 8000, "metrics": 8002}}
"""Of vLLM and of Triton, where neither the containers nor a Service name any."""
KEEPERS = {
    "argocd": ("Argo CD", "add /spec/minReplicas to ignoreDifferences, with RespectIgnoreDifferences=true,"),
    "kustomize-controller": ("Flux", "leave spec.minReplicas out of the file"),
    "helm-controller": ("Flux", "leave spec.minReplicas out of the chart"),
}
"""By the beginning of a field manager's name: what applies files of Git again and again, and how its owner leaves the floor to Weir."""


class Token(msgspec.Struct, frozen=True):
    """What `PoolSeen.token` is made of: the Deployment's version, and what has to be the same in a newer one."""

    uid: str
    version: str
    fence: int
    replicas: int
    manager: str
    """Who set the count last, so that a count that was changed and set back is noticed."""

    @classmethod
    def of(cls, deployment: Deployment) -> "Token":
        meta = deployment.metadata
        manager = next(iter(managers_of_count(deployment)), "")
        return cls(meta.uid, meta.resourceVersion, fence_of(meta.annotations), deployment.spec.replicas, manager)

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Raises ValueError."""
        uid, version, fence, replicas, manager = text.split("/", 4)
        return cls(uid, version, int(fence), int(replicas), manager)

    def __str__(self) -> str:
        return f"{self.uid}/{self.version}/{self.fence}/{self.replicas}/{self.manager}"

    def is_same_count(self, before: "Token") -> bool:
        """Whether nobody has set the count since, except Weir that has taken it on as it was."""
        same_manager = self.manager in (before.manager, MANAGER)
        return (self.uid, self.replicas) == (before.uid, before.replicas) and same_manager


def fence_of(annotations: Labels) -> int:
    """The generation of the last leader that wrote; 0 where none has, or somebody else wrote what is no number."""
    text = annotations.get(FENCE, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def matches(selector: Selector, labels: Labels) -> bool:
    """Whether a selector picks these labels. An empty one picks all (apps/v1)."""
    if any(labels.get(key) != value for key, value in selector.matchLabels.items()):
        return False
    for expression in selector.matchExpressions:
        has, value = expression.key in labels, labels.get(expression.key)
        fits = {
            "In": value in expression.values,
            "NotIn": value not in expression.values,
            "Exists": has,
            "DoesNotExist": not has,
        }
        if not fits.get(expression.operator, False):
            return False
    return True


def pods_by_workload(pods: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    """Pods by the Deployment whose ReplicaSet controls them. A ReplicaSet's name is the Deployment's and a hash."""
    return _by_workload(pod for pod in pods if pod.status.phase not in ENDED)


def rejected_by_workload(pods: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    """Those that ended because their node did not take them: of others the node says how their containers ended."""
    return _by_workload(
        pod for pod in pods if pod.status.phase == "Failed" and pod.status.reason and not pod.status.containerStatuses
    )


def _by_workload(pods: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    grouped: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        for owner in pod.metadata.ownerReferences:
            if owner.controller and owner.kind == "ReplicaSet":
                grouped[owner.name.rpartition("-")[0]].append(pod)
    return grouped


def pool_seen(
    binding: PoolBinding,
    deployment: Deployment | None,
    pods: Iterable[Pod],
    autoscalers: Iterable[Autoscaler],
    service_ports: Mapping[str, Mapping[str, int]],
    rejected: Iterable[Pod] = (),
    silent: Mapping[str, str] = {},
) -> PoolSeen:
    """The pool; `service_ports` are the ports by name of Services, by pod. `rejected` are pods that no node has taken, `silent` nodes."""
    if deployment is None:
        return PoolSeen(
            binding.pool,
            problem=f"There is no Deployment “{binding.workload}”: name it in the pool, or apply the stack.",
        )
    mine = [pod for pod in pods if matches(deployment.spec.selector, pod.metadata.labels)]
    scalers = sorted(
        (scaler for scaler in autoscalers if _targets(scaler, binding.workload)),
        key=lambda scaler: scaler.metadata.name,
    )
    managers = managers_of_count(deployment)
    rollout, stuck = faults.rollout_of(deployment, mine)
    late = faults.lateness_of(deployment)
    turned_away = faults.rejection_of(
        (pod for pod in rejected if matches(deployment.spec.selector, pod.metadata.labels)), mine
    )
    return PoolSeen(
        pool=binding.pool,
        wanted=deployment.spec.replicas,
        token=str(Token.of(deployment)),
        replicas=tuple(
            replica_seen(
                binding,
                pod,
                service_ports.get(pod.metadata.name, {}),
                late if pod.status.containerStatuses else turned_away or late,
                silent,
            )
            for pod in sorted(mine, key=lambda pod: pod.metadata.name)
        ),
        owner_of_count=f"hpa:{scalers[0].metadata.name}" if scalers else owner_of_count(deployment, managers),
        taken_on=fence_of(deployment.metadata.annotations) > 0,
        count_set_by=managers[0] if managers else "",
        autoscaler=autoscaler_seen(scalers[0]) if scalers else None,
        problem=_problem(deployment, scalers),
        rollout=rollout,
        rollout_stuck=stuck,
        gpus_per_replica=gpus_of(deployment.spec.template.spec) or None,
    )


def _targets(scaler: Autoscaler, workload: str) -> bool:
    target = scaler.spec.scaleTargetRef
    return target.kind == "Deployment" and target.name == workload


def autoscaler_seen(scaler: Autoscaler) -> AutoscalerSeen:
    return AutoscalerSeen(
        name=scaler.metadata.name,
        min_replicas=scaler.spec.minReplicas,
        max_replicas=scaler.spec.maxReplicas,
        owner_min_replicas=own_floor(scaler),
        kept_by=floor_kept_by(scaler),
    )


def floor_kept_by(scaler: Autoscaler) -> str:
    """Who would set `minReplicas` back: KEDA, which makes the HPA of a ScaledObject, or a tool that keeps what Git says. Its owner may say
    by an annotation that Weir may set it all the same.
    """
    meta = scaler.metadata
    if meta.annotations.get(FLOOR) == MANAGER:
        return ""
    for owner in meta.ownerReferences:
        if owner.kind == "ScaledObject":
            return (
                f"KEDA sets the floor of HorizontalPodAutoscaler “{meta.name}” back to what ScaledObject “{owner.name}” says: set its "
                "minReplicaCount yourself, or let Weir scale the pool without KEDA."
            )
    for manager in managers_of(meta.managedFields, "minReplicas"):
        for prefix, (tool, remedy) in KEEPERS.items():
            if manager.startswith(prefix):
                return (
                    f"{tool} keeps the floor of HorizontalPodAutoscaler “{meta.name}” as Git says: {remedy} and set the annotation "
                    f"{FLOOR}: {MANAGER} there."
                )
    return ""


def own_floor(scaler: Autoscaler) -> int:
    """The least that the HPA's owner has set, whatever Weir has raised it to. Who has set it since Weir did is its owner."""
    text = scaler.metadata.annotations.get(OWN_FLOOR, "")
    is_weirs = managers_of(scaler.metadata.managedFields, "minReplicas") == [MANAGER]
    return int(text) if is_weirs and text.isascii() and text.isdecimal() else scaler.spec.minReplicas


def _problem(deployment: Deployment, scalers: list[Autoscaler]) -> str:
    name = deployment.metadata.name
    if deployment.metadata.deletionTimestamp:
        return f"Deployment “{name}” is being deleted."
    if len(scalers) > 1:
        names = " and ".join(f"“{scaler.metadata.name}”" for scaler in scalers)
        return f"The HorizontalPodAutoscalers {names} set the same count: remove all but one of them."
    return ""


def managers_of_count(deployment: Deployment) -> list[str]:
    return managers_of(deployment.metadata.managedFields, "replicas")


def managers_of(managed: Iterable[Field], name: str) -> list[str]:
    """The field managers of `spec.NAME`, Weir first. Several are those that set the same value by server-side apply.

    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    """
    managers = []
    for field in managed:
        fields: Any = msgspec.json.decode(field.fieldsV1)
        if isinstance(fields, dict) and f"f:{name}" in fields.get("f:spec", {}):
            managers.append(field.manager)
    return sorted(managers, key=lambda manager: manager != MANAGER)


def owner_of_count(deployment: Deployment, managers: list[str]) -> str:
    """Whose the count is: somebody else's where Weir has written to the Deployment, and somebody has set the count since."""
    taken_on = fence_of(deployment.metadata.annotations) > 0
    return HAND if taken_on and managers and MANAGER not in managers else WEIR


def replica_seen(
    binding: PoolBinding, pod: Pod, service_ports: Mapping[str, int], late: str = "", silent: Mapping[str, str] = {}
) -> ReplicaSeen:
    """The replica; `late` is the fault of one that has a place, starts, and should be ready by now."""
    meta, ip = pod.metadata, pod.status.podIP
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready = conditions.get("Ready")
    lost = faults.node_fault_of(pod, silent)
    is_ready = not lost and ready is not None and ready.status == "True" and bool(ip)  # some kubelets write it later
    reason, since = _unplaced(conditions)
    ports = _ports(binding.protocol, pod, service_ports)
    host = f"[{ip}]" if ":" in ip else ip
    addresses = {name: f"{host}:{port}" for name, port in ports.items()} if ip else {}
    main = addresses.get("grpc" if binding.protocol == "triton" else "http", "")
    return ReplicaSeen(
        name=meta.name,
        pool=binding.pool,
        address=f"http://{main}/v1" if main and binding.protocol == "openai" else main,
        created_ms=ms(meta.creationTimestamp) or 0,
        ready=is_ready,
        terminating=meta.deletionTimestamp is not None,
        http=addresses.get("http", "") if binding.protocol == "triton" else "",
        metrics=addresses.get("metrics", ""),
        pending_reason=reason,
        pending_since_ms=(since or ms(meta.creationTimestamp)) if reason else None,
        fault="" if is_ready else lost or faults.fault_of(pod) or ("" if reason else late),
        lost=bool(lost),
        ends_ms=ms(meta.deletionTimestamp),
    )


def _unplaced(conditions: Mapping[str, Condition]) -> tuple[str, int | None]:
    """Why the pod has no node, and since when."""
    scheduled = conditions.get("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return "", None
    return f"{scheduled.reason or ''}: {scheduled.message or ''}".strip(": "), ms(scheduled.lastTransitionTime)


def _ports(protocol: str, pod: Pod, service_ports: Mapping[str, int]) -> dict[str, int]:
    """Ports by the names that Weir knows: those of a Service before the containers' before the usual ones."""
    named = {
        port.name: port.containerPort for container in pod.spec.containers for port in container.ports if port.name
    }
    ports = {**named, **service_ports}
    only = {*ports.values(), *(port.containerPort for container in pod.spec.containers for port in container.ports)}
    usual = DEFAULT_PORTS[protocol]
    if protocol == "openai" and "http" not in ports and len(only) == 1:
        return {**ports, "http": only.pop()}
    main = "http" if protocol == "openai" else "grpc"
    return ports if main in ports else {**usual, **ports}


def service_ports(slices: Iterable[EndpointSlice]) -> dict[str, dict[str, int]]:
    """By pod, the ports that a Service has, by their names."""
    ports: dict[str, dict[str, int]] = defaultdict(dict)
    for part in slices:
        for endpoint in part.endpoints or ():
            if endpoint.targetRef and endpoint.targetRef.kind == "Pod":
                ports[endpoint.targetRef.name] |= {
                    port.name or "http": port.port for port in part.ports or () if port.port
                }
    return ports


def gateway_urls(slices: Iterable[EndpointSlice], service: str) -> dict[str, bool]:
    """The URLs of the Service's endpoints, of the port called `http`, else of its only port, and whether each is ready."""
    urls: dict[str, bool] = {}
    for part in slices:
        if part.metadata.labels.get("kubernetes.io/service-name") != service:
            continue
        ports = {port.name or "": port.port for port in part.ports or () if port.port}
        port = ports.get("http") or (next(iter(ports.values())) if len(ports) == 1 else None)
        for endpoint in part.endpoints or ():
            for host in endpoint.addresses if port else ():
                url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
                urls[url] = urls.get(url, False) or endpoint.conditions.ready is not False
    return urls


def gateways_seen(
    tiers: Iterable[PoolSeen], of_service: Mapping[str, bool]
) -> tuple[tuple[str, ...], dict[str, int | None]]:
    """The gateways that are ready, those of Deployments beside those of a Service; and the others, with their ends."""
    every = [(replica.address.removesuffix("/v1"), replica) for tier in tiers for replica in tier.replicas]
    here = [
        (url, replica)
        for url, replica in every
        if url and not replica.pending_reason and (replica.lost or not replica.fault)
    ]
    ready = {url for url, is_ready in of_service.items() if is_ready}
    ready |= {url for url, replica in here if replica.ready and not replica.terminating}
    others = dict.fromkeys(of_service.keys() - {url for url, _ in every}) | {url: each.ends_ms for url, each in here}
    return tuple(sorted(ready)), {url: ends_ms for url, ends_ms in sorted(others.items()) if url not in ready}
