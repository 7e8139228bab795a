"""A namespace of its own for each test, with hands that are not Weir's."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import client, config, utils

from tests.support.cluster.control_plane import ControlPlane
from tests.support.wait import eventually


class Namespace:
    """What people and other controllers do there. `plane` is None where the cluster is somebody else's (KUBECONFIG)."""

    def __init__(self, kubeconfig: Path, plane: ControlPlane | None, name: str) -> None:
        self.kubeconfig = kubeconfig
        self.plane = plane
        self.name = name
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        self.api = client.ApiClient(settings)
        self.apps = client.AppsV1Api(self.api)
        self.core = client.CoreV1Api(self.api)
        self.scaling = client.AutoscalingV2Api(self.api)

    def create(self, *manifests: dict[str, Any], manager: str = "kubectl-create") -> None:
        for manifest in manifests:
            utils.create_from_dict(self.api, manifest, namespace=self.name, field_manager=manager)

    def set_count(self, workload: str, replicas: int, manager: str = "kubectl") -> None:
        """What `kubectl scale` does."""
        self.apps.patch_namespaced_deployment_scale(
            workload, self.name, {"spec": {"replicas": replicas}}, field_manager=manager
        )

    def count(self, workload: str) -> int:
        return int(self.apps.read_namespaced_deployment(workload, self.name).spec.replicas)

    def pods(self, app: str) -> list[Any]:
        listed = self.core.list_namespaced_pod(self.name, label_selector=f"app={app}").items
        return [pod for pod in listed if pod.metadata.deletion_timestamp is None]

    def open_gate(self, pod: str) -> None:
        """The pod's model is loaded."""
        condition = {"type": "weir.dev/loaded", "status": "True"}
        self.core.patch_namespaced_pod_status(pod, self.name, {"status": {"conditions": [condition]}})

    def has_pods(self, app: str, count: int) -> None:
        eventually(lambda: len(self.pods(app)) == count, lambda: f"{len(self.pods(app))} pods of {app}")


def namespace(kubeconfig: Path, plane: ControlPlane | None) -> Iterator[Namespace]:
    """A new namespace, which is deleted from a cluster that goes on. From one of the tests only its pods are, with their GPUs."""
    made = Namespace(kubeconfig, plane, f"weir-test-{secrets.token_hex(4)}")
    made.core.create_namespace({"metadata": {"name": made.name}})
    yield made
    if plane is None:
        made.core.delete_namespace(made.name)
    else:
        made.apps.delete_collection_namespaced_deployment(made.name)
