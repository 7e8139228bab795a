"""A Redis for the gateways' cache: one server without a disk. Limits over all gateways are counted in it too.

It is not the place for the control plane's broker in production: that wants a failover (deploy/kubernetes/overlays/production).
"""

from controlplane.fleet.core.manifests import objects
from controlplane.fleet.core.manifests.objects import Manifest
from controlplane.fleet.core.manifests.values import WorkloadValue

PORTS = {"redis": 6379}
HEADROOM = 0.75
"""Of the memory limit for values; the rest is for buffers, fragmentation and the server itself."""


def manifests(workload: WorkloadValue, memory_bytes: int) -> list[Manifest]:
    """Deployment, Service, PodDisruptionBudget. The password is the key `password` of the workload's secret."""
    made = objects.container(workload, "redis", PORTS, [])
    password = [{"name": "REDISCLI_AUTH", "valueFrom": {"secretKeyRef": {"name": workload.secret, "key": "password"}}}]
    made.pop("envFrom", None)
    made["env"] = password if workload.secret else []
    guard = ' --requirepass "$REDISCLI_AUTH"' if workload.secret else ""
    keys = f"--maxmemory {int(memory_bytes * HEADROOM)} --maxmemory-policy allkeys-lru --save '' --appendonly no"
    made["command"] = ["sh", "-c", f"exec redis-server --protected-mode no {keys}{guard}"]
    ping = {"exec": {"command": ["redis-cli", "ping"]}, "periodSeconds": 5, "timeoutSeconds": 2}
    made |= {"readinessProbe": ping, "livenessProbe": ping | {"periodSeconds": 10, "failureThreshold": 6}}
    return [
        objects.deployment(workload, objects.pod(workload, made, []), {}),
        objects.service(workload, PORTS),
        objects.disruption_budget(workload),
    ]
