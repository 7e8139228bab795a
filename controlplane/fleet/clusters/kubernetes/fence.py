"""Refuses a leader that another one has followed.

A leader writes the generation of its lease to each object that it changes. The API server takes a write only for the
resourceVersion that it was made for, and writing the generation makes a new one. So a write that an older leader prepared before
is refused as a conflict, and when it looks again, it sees the newer generation.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from controlplane.fleet.clusters.errors import ConflictError, StaleLeaderError
from controlplane.fleet.clusters.kubernetes import paths
from controlplane.fleet.clusters.kubernetes.client import APPLY, Api
from controlplane.fleet.clusters.kubernetes.objects import Metadata
from controlplane.fleet.clusters.kubernetes.view import fence_of

T = TypeVar("T")
TRIES = 8
"""How often an object is looked at again that changes all the while, as a Deployment's status does while its pods start."""
LEASE = "weir-controller"


class Head(msgspec.Struct, frozen=True):
    """An object's metadata alone."""

    metadata: Metadata = Metadata()


class _List(msgspec.Struct, frozen=True):
    items: tuple[Head, ...] = ()


class _LeaseSpec(msgspec.Struct, frozen=True):
    leaseTransitions: int = 0  # noqa: N815


class _Lease(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: _LeaseSpec = _LeaseSpec()


def check(what: str, fence: int, generation: int) -> None:
    """Raises StaleLeaderError where a newer leader has written to `what`."""
    if fence > generation:
        raise StaleLeaderError(
            f"{what} was last written by the leader of generation {fence}, and this process has {generation}: another leads. "
            "If none does, Weir's database was set back: run `manage.py leader`."
        )


def persist(look: Callable[[], T], write: Callable[[T], T]) -> T:
    """Write to what is seen, and look again where it has changed since. Raises ConflictError where it keeps changing."""
    for tries_left in reversed(range(TRIES)):
        seen = look()
        try:
            return write(seen)
        except ConflictError:
            if not tries_left:
                raise
    raise AssertionError


def fences(api: Api, namespace: str, snapshot: str) -> Mapping[str, int]:
    """What bears a generation, by kind and name. Raises ClusterError."""
    kinds = {
        "Deployment": paths.deployments(namespace),
        "HorizontalPodAutoscaler": paths.autoscalers(namespace),
        "Pod": paths.pods(namespace),
    }
    seen: dict[str, int] = {}
    if lease := api.find(paths.leases(namespace, LEASE), _Lease):
        seen[f"Lease “{LEASE}”"] = lease.spec.leaseTransitions
    if stored := api.find(paths.config_maps(namespace, snapshot), Head):
        seen[f"ConfigMap “{snapshot}”"] = fence_of(stored.metadata.annotations)
    for kind, path in kinds.items():
        for item in api.request("GET", path, _List).items:
            seen[f"{kind} “{item.metadata.name}”"] = fence_of(item.metadata.annotations)
    return {name: fence for name, fence in seen.items() if fence}


def mark(api: Api, path: str, seen: Metadata, generation: int) -> Metadata:
    """Write the generation to a Deployment as it was seen, unless it has it. Raises ConflictError and StaleLeaderError."""
    fence = fence_of(seen.annotations)
    check(f"Deployment “{seen.name}”", fence, generation)
    if fence == generation:
        return seen
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": seen.name,
            "uid": seen.uid,  # without it, applying to what was deleted meanwhile would try to create it
            "resourceVersion": seen.resourceVersion,
            "annotations": {paths.FENCE: str(generation)},
        },
    }
    query = {"fieldManager": paths.FENCE_MANAGER, "force": "true"}
    return api.request("PATCH", path, Head, query=query, body=body, content_type=APPLY).metadata


def claim_lease(api: Api, namespace: str, holder: str, generation: int) -> None:
    """Write who leads to a Lease, where people and other tools see it. Raises StaleLeaderError where a newer leader has."""
    path = paths.leases(namespace, LEASE)

    def write(seen: _Lease | None) -> _Lease | None:
        if seen is not None:
            check(f"Lease “{LEASE}”", seen.spec.leaseTransitions, generation)
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": namespace},
            "spec": {"holderIdentity": holder, "leaseTransitions": generation, "acquireTime": now},
        }
        query = {"fieldManager": paths.MANAGER}
        if seen is None:
            return api.request("POST", paths.leases(namespace), _Lease, query=query, body=body)
        body["metadata"]["resourceVersion"] = seen.metadata.resourceVersion
        return api.request("PUT", path, _Lease, query=query, body=body)

    persist(partial(api.find, path, _Lease), write)
