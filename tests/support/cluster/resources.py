"""Custom resources of Weir in a test's namespace, as people make and change them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from controlplane.fleet.clusters.kubernetes.client import Api, connect
from controlplane.sources.core.resources import GROUP, VERSION, plural
from controlplane.sources.crds import definitions
from controlplane.sources.follow import Follower
from tests.support.cluster.namespace import Namespace
from tests.support.wait import eventually

Manifest = dict[str, Any]


def defined(namespace: Namespace) -> None:
    """The cluster has Weir's definitions, as `./weir crds` writes them, and serves them."""
    api = client.ApiextensionsV1Api(namespace.api)
    for definition in definitions():
        with suppress(client.ApiException):  # an earlier test made it
            api.create_custom_resource_definition(definition)

    def served() -> bool:
        items = api.list_custom_resource_definition().items
        ours = [each for each in items if each.spec.group == GROUP]
        names = [{it.type for it in each.status.conditions or () if it.status == "True"} for each in ours]
        return len(ours) == len(definitions()) and all("Established" in each for each in names)

    eventually(served)


def manifest(text: str) -> Manifest:
    """A document of a file as an object."""
    made: Manifest = yaml.safe_load(text)
    return {**made, "apiVersion": f"{GROUP}/{VERSION}"}


class Resources:
    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self._api = client.CustomObjectsApi(namespace.api)

    def _where(self, kind: str) -> tuple[str, str, str, str]:
        return GROUP, VERSION, self.namespace.name, plural(kind)

    def create(self, text: str, **annotations: str) -> None:
        made = manifest(text)
        made["metadata"]["annotations"] = {f"{GROUP}/{name}": value for name, value in annotations.items()}
        self._api.create_namespaced_custom_object(*self._where(made["kind"]), made)

    def edit(self, kind: str, name: str, spec: Manifest) -> None:
        self._api.patch_namespaced_custom_object(*self._where(kind), name, {"spec": spec})

    def delete(self, kind: str, name: str) -> None:
        self._api.delete_namespaced_custom_object(*self._where(kind), name)

    def get(self, kind: str, name: str) -> Manifest | None:
        try:
            found: Manifest = self._api.get_namespaced_custom_object(*self._where(kind), name)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return None
        return found

    def ready(self, kind: str, name: str) -> tuple[str, str, str]:
        """Status, reason and message of its condition, once it is about the newest text; empty until then."""
        found = self.get(kind, name) or {}
        status = found.get("status", {})
        if status.get("observedGeneration") != found.get("metadata", {}).get("generation"):
            return "", "", ""
        condition = next(each for each in status["conditions"] if each["type"] == "Ready")
        return condition["status"], condition["reason"], condition["message"]


@contextmanager
def following(namespace: Namespace, kubeconfig: Path | None = None) -> Iterator[Follower]:
    """Weir's side. Its watches have seen everything that there is."""
    follower = Follower(Api(partial(connect, kubeconfig or namespace.kubeconfig)), namespace.name)
    follower.start()
    try:
        eventually(lambda: not follower.problem, lambda: follower.problem)
        yield follower
    finally:
        follower.stop()
