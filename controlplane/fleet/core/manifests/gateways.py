"""The API tier: gateways in one region, with an autoscaler whose floor a policy may raise."""

from controlplane.fleet.core.manifests import objects
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.values import WorkloadValue

PORTS = {"http": 8080}
LAME_DUCK_MS = 10_000
"""How long balancers may take to see that a gateway drains."""
FLUSH_MS = 6_000
"""What the gateway needs for its last writes and spans (`inference.config`)."""
TARGET_CPU_PERCENT = 60
COMPONENT = {"app.kubernetes.io/component": "gateway", "weir.dev/component": "gateway"}


def manifests(workload: WorkloadValue, settings: dict[str, str]) -> list[Manifest]:
    """Deployment, Service, PodDisruptionBudget, HorizontalPodAutoscaler. `settings` are environment variables."""
    made = objects.container(workload, "gateway", PORTS, [{"name": "home", "mountPath": "/var/lib/weir"}])
    grace_ms = workload.drain_s * 1000
    own = {
        "WEIR_HOME": "/var/lib/weir",
        "WEIR_GATEWAY_HOST": "0.0.0.0",  # noqa: S104  (in a pod)
        "WEIR_LOG_FORMAT": "json",
        "WEIR_LAME_DUCK_MS": str(LAME_DUCK_MS),
        "WEIR_DRAIN_TIMEOUT_MS": str(max(0, grace_ms - LAME_DUCK_MS - FLUSH_MS)),
        "WEIR_TERMINATION_GRACE_MS": str(grace_ms),
    }
    made["command"] = ["python", "-m", "inference"]
    made["env"] = [
        {"name": name, "value": value} for name, value in (own | settings | dict(workload.environment)).items()
    ]
    made |= objects.http_probes(workload, "http", "/readyz", "/healthz")
    made["startupProbe"]["httpGet"]["path"] = "/healthz"  # without a snapshot it waits for one, and lives
    pod = objects.pod(workload, made, [{"name": "home", "emptyDir": {}}])
    deployment = objects.deployment(workload, pod, {})
    for labelled in (deployment, deployment["spec"]["template"]):  # what is discovered, and let in (docs/clusters.md)
        labelled["metadata"]["labels"] |= COMPONENT
    return [
        deployment,
        objects.service(workload, PORTS),
        objects.disruption_budget(workload),
        *([_autoscaler(workload)] if workload.max_replicas else []),
    ]


def _autoscaler(workload: WorkloadValue) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": TARGET_CPU_PERCENT}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": objects.metadata(workload),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name},
            "minReplicas": workload.min_replicas,
            "maxReplicas": workload.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
