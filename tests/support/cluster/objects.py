"""Objects for tests, as manifests."""

from typing import Any

IMAGE = "registry.k8s.io/pause:3.10"


def deployment(
    name: str, replicas: int = 1, *, gpus: int = 0, ports: dict[str, int] | None = None, gated: bool = False
) -> dict[str, Any]:
    """A Deployment of pods that run nothing. `gated`: its pods are not ready until `open_gate` says so."""
    container: dict[str, Any] = {
        "name": "server",
        "image": IMAGE,
        "ports": [{"name": key, "containerPort": port} for key, port in (ports or {}).items()],
    }
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if gated:
        spec["readinessGates"] = [{"conditionType": "weir.dev/loaded"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def autoscaler(name: str, workload: str, least: int, most: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    }


def service(name: str, app: str, **ports: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": app},
            "ports": [{"name": key, "port": port, "targetPort": port} for key, port in ports.items()],
        },
    }


def disruption_limit(name: str, app: str, most_away: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": most_away, "selector": {"matchLabels": {"app": app}}},
    }


def gpu_quota(name: str, gpus: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": {"requests.nvidia.com/gpu": str(gpus)}},
    }
