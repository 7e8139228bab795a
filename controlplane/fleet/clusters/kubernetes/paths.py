"""Which parts of Kubernetes' API are used. All of these versions are in 1.30 and in 1.36 (docs/clusters.md)."""

CORE, APPS, AUTOSCALING = "/api/v1", "/apis/apps/v1", "/apis/autoscaling/v2"
DISCOVERY, COORDINATION = "/apis/discovery.k8s.io/v1", "/apis/coordination.k8s.io/v1"
NODES, PODS = f"{CORE}/nodes", f"{CORE}/pods"
"""Of the whole cluster."""

FENCE = "weir.dev/leader-generation"
"""Annotation: the generation of the lease of the last leader that wrote to the object. Older leaders are refused."""
OWN_FLOOR = "weir.dev/owner-min-replicas"
"""Annotation of an HPA: the least that its owner had set before Weir raised it."""
FLOOR = "weir.dev/floor"
"""Annotation of an HPA: `weir` where its owner lets Weir set the floor, whatever else keeps it."""
GATEWAY_LABEL = ("weir.dev/component", "gateway")
"""Of the Deployments of gateways, and of their pods. It is Weir's own: other charts have gateways too."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MANAGER, FENCE_MANAGER, STACK_MANAGER = "weir", "weir-fence", "weir-stack"
"""Field managers. The stack has its own, as applying without a field gives that field up."""


def deployments(namespace: str, name: str = "") -> str:
    return _path(APPS, namespace, "deployments", name)


def pods(namespace: str, name: str = "") -> str:
    return _path(CORE, namespace, "pods", name)


def autoscalers(namespace: str, name: str = "") -> str:
    return _path(AUTOSCALING, namespace, "horizontalpodautoscalers", name)


def endpoint_slices(namespace: str) -> str:
    return _path(DISCOVERY, namespace, "endpointslices")


def quotas(namespace: str) -> str:
    return _path(CORE, namespace, "resourcequotas")


def config_maps(namespace: str, name: str = "") -> str:
    return _path(CORE, namespace, "configmaps", name)


def leases(namespace: str, name: str = "") -> str:
    return _path(COORDINATION, namespace, "leases", name)


def _path(group: str, namespace: str, resource: str, name: str = "") -> str:
    return f"{group}/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")
