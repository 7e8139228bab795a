"""Parts that the objects of every workload share."""

from typing import Any

from controlplane.fleet.core.manifests.values import WorkloadValue

Manifest = dict[str, Any]

MANAGED_BY = "weir"
RUN_AS = 10001
"""A user without rights, as namespaces want it that enforce the Pod Security Standard `restricted`."""
HOME = "/home/weir"
"""Of servers that keep caches in the home of their user: this one has none in their images."""


def metadata(workload: WorkloadValue, name: str = "") -> Manifest:
    return {"name": name or workload.name, "namespace": workload.namespace, "labels": labels(workload)}


def labels(workload: WorkloadValue) -> dict[str, str]:
    own = {
        "app.kubernetes.io/name": workload.kind,
        "app.kubernetes.io/instance": workload.name,
        "app.kubernetes.io/managed-by": MANAGED_BY,
    }
    if workload.pool:
        own["weir.dev/pool"] = workload.pool
    return own


def selector(workload: WorkloadValue) -> dict[str, str]:
    """Of a Deployment it can never change, so it has nothing that an owner may edit."""
    return {"app.kubernetes.io/name": workload.kind, "app.kubernetes.io/instance": workload.name}


def deployment(workload: WorkloadValue, pod: Manifest, annotations: dict[str, str], revision: str = "") -> Manifest:
    """Without `replicas`: who scales it owns the count, and applying must not set it back. A new one begins with one replica.

    `revision` changes the pods' template, and with it all pods, where files that they mount have changed.
    """
    notes = annotations | ({"weir.dev/config": revision} if revision else {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(workload),
        "spec": {
            "selector": {"matchLabels": selector(workload)},
            # A replica more before one less: capacity does not shrink while a version is rolled out. It needs a spare GPU.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "progressDeadlineSeconds": workload.start_s + 60,
            "template": {"metadata": {"labels": labels(workload), "annotations": notes}, "spec": pod},
        },
    }


def pod(workload: WorkloadValue, container: Manifest, volumes: list[Manifest]) -> Manifest:
    spec: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # else a Service “vllm” or “weir-gateway” sets VLLM_PORT or WEIR_GATEWAY_PORT, which are settings
        "terminationGracePeriodSeconds": workload.drain_s,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": RUN_AS,
            "runAsGroup": RUN_AS,
            "fsGroup": RUN_AS,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(workload)},
            }
        ],
    }
    if workload.node_selector:
        spec["nodeSelector"] = dict(workload.node_selector)
    if workload.gpus and workload.tolerate_gpu_taint:
        spec["tolerations"] = [{"key": workload.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}]
    return spec


def container(workload: WorkloadValue, name: str, ports: dict[str, int], mounts: list[Manifest]) -> Manifest:
    """GPUs are a limit, as Kubernetes wants it; memory is limited to what is requested, so that no neighbour is evicted for it."""
    limits: dict[str, str] = {"memory": workload.memory}
    if workload.gpus:
        limits[workload.gpu_resource] = str(workload.gpus)
    made: Manifest = {
        "name": name,
        "image": workload.image,
        "ports": [{"name": port, "containerPort": number} for port, number in ports.items()],
        "resources": {"requests": {"cpu": workload.cpu, "memory": workload.memory}, "limits": limits},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }
    if workload.environment:
        made["env"] = [{"name": name, "value": value} for name, value in workload.environment]
    if workload.secret:
        made["envFrom"] = [{"secretRef": {"name": workload.secret}}]
    return made


def at_home(container: Manifest) -> Manifest:
    """The volume that is the container's home. torch asks for the user's name, which the image's list of users does not have."""
    container["volumeMounts"] = [*container["volumeMounts"], {"name": "home", "mountPath": HOME}]
    own = [{"name": "HOME", "value": HOME}, {"name": "USER", "value": "weir"}]
    container["env"] = [*own, *container.get("env", [])]
    return {"name": "home", "emptyDir": {}}


def sends_spans() -> Manifest:
    """The environment variable with the token that receivers of spans want, out of a Secret that may be missing."""
    key = {"name": "weir-otlp", "key": "headers", "optional": True}
    return {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": {"secretKeyRef": key}}


def http_probes(workload: WorkloadValue, port: str, ready: str, alive: str) -> Manifest:
    """Loading weights may take `start_s`: until then only the start-up probe counts."""
    return {
        "startupProbe": {
            "httpGet": {"path": ready, "port": port},
            "periodSeconds": 5,
            "failureThreshold": max(1, -(-workload.start_s // 5)),
        },
        "readinessProbe": {
            "httpGet": {"path": ready, "port": port},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": alive, "port": port},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
    }


def service(workload: WorkloadValue, ports: dict[str, int], headless: bool = False) -> Manifest:
    spec: Manifest = {
        "selector": selector(workload),
        "ports": [{"name": name, "port": number, "targetPort": name} for name, number in ports.items()],
    }
    if headless:
        spec["clusterIP"] = "None"  # the gateway balances over the pods itself
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(workload), "spec": spec}


def disruption_budget(workload: WorkloadValue) -> Manifest:
    """A node is drained one pod at a time, and the next one waits until the first is ready elsewhere."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(workload),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(workload)}},
    }


def scraped(port: int, path: str = "/metrics") -> dict[str, str]:
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": path}


def volumes(workload: WorkloadValue) -> list[Manifest]:
    """The model's files and shared memory, where it has them."""
    made: list[Manifest] = []
    if workload.store_claim:
        made.append({"name": "store", "persistentVolumeClaim": {"claimName": workload.store_claim, "readOnly": True}})
    if workload.shared_memory:
        made.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": workload.shared_memory}})
    return made


def mounts(workload: WorkloadValue, store_at: str) -> list[Manifest]:
    made: list[Manifest] = []
    if workload.store_claim:
        mount: Manifest = {"name": "store", "mountPath": store_at, "readOnly": True}
        if workload.store_path:
            mount["subPath"] = workload.store_path
        made.append(mount)
    if workload.shared_memory:
        made.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108  (where engines expect it)
    return made
