"""GPUs that a namespace may have, and those that are taken. Pure: no I/O, no clock."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import chain

from controlplane.fleet.clusters.kubernetes import faults
from controlplane.fleet.clusters.kubernetes.objects import ENDED, Node, PlacedPod, Pod, PodSpec, Quota, Resources
from controlplane.fleet.clusters.port import GpusSeen

GPU_SUFFIX = "/gpu"
"""Resources that count as GPUs: nvidia.com/gpu, amd.com/gpu, and others of that spelling."""
_OF_EVERY_REPLICA = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes of quotas in which a Deployment's pods with GPUs are."""


def gpus_seen(
    quotas: Iterable[Quota], nodes: Collection[Node], pods: Iterable[Pod], elsewhere: Collection[PlacedPod] = ()
) -> dict[str, GpusSeen]:
    """GPUs by resource: of the namespace's quotas, the tightest; without a quota on them, those of the nodes. A quota on some pods alone,
    such as those of jobs, is none. `elsewhere` are pods of other namespaces.
    """
    seen: dict[str, GpusSeen] = {}
    allocatable: dict[str, int] = defaultdict(int)
    usable, silent = set(), faults.silent_nodes(nodes)
    for node in nodes:
        if node.metadata.name not in silent and not node.spec.unschedulable:
            usable.add(node.metadata.name)
        for resource, amount in node.status.allocatable.items():
            if resource.endswith(GPU_SUFFIX):
                allocatable[resource] += count(amount) if node.metadata.name in usable else 0
    here = [pod.spec for pod in pods if pod.status.phase not in ENDED]
    for resource, total in allocatable.items():
        placed = (spec for spec in chain(here, (pod.spec for pod in elsewhere)) if spec.nodeName in usable)
        seen[resource] = GpusSeen(total, _requested(placed, resource))
    for quota in filter(_is_of_every_replica, quotas):
        for name, hard in quota.status.hard.items():
            resource = name.removeprefix("requests.")
            if name.startswith("requests.") and resource.endswith(GPU_SUFFIX):
                stated = GpusSeen(count(hard), count(quota.status.used.get(name, "0")), waiting_too=True)
                before = seen.get(resource)
                waiting = _requested((spec for spec in here if not spec.nodeName), resource)
                if before is None or _free(stated, waiting) < _free(before, waiting):
                    seen[resource] = stated
    return seen


def _free(gpus: GpusSeen, waiting: int) -> int:
    """Once the pods that have no node yet have theirs."""
    return gpus.allocatable - gpus.requested - (0 if gpus.waiting_too else waiting)


def _requested(specs: Iterable[PodSpec], resource: str) -> int:
    return sum(_amount(container.resources, resource) for spec in specs for container in spec.containers)


def _is_of_every_replica(quota: Quota) -> bool:
    """https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes"""
    selected = (each.scopeName for each in quota.spec.scopeSelector.matchExpressions)
    return _OF_EVERY_REPLICA.issuperset((*quota.spec.scopes, *selected))


def has_gpus(pod: PlacedPod) -> bool:
    """Whether it requests any: a cluster has thousands of others."""
    return gpus_of(pod.spec) > 0


def gpus_of(spec: PodSpec) -> int:
    """That its containers request, of whichever resource. A claim of a device (DRA) says no number here."""
    each = (container.resources for container in spec.containers)
    names = ((its, name) for its in each for name in {*its.requests, *its.limits} if name.endswith(GPU_SUFFIX))
    return sum(_amount(its, name) for its, name in names)


def _amount(resources: Resources, name: str) -> int:
    return count(resources.requests.get(name, resources.limits.get(name, "0")))


def count(quantity: str) -> int:
    """A whole quantity, such as "4" or "1k"; 0 for what is none."""
    number, thousands = (quantity[:-1], 1000) if quantity.endswith("k") else (quantity, 1)
    return int(number) * thousands if number.isascii() and number.isdecimal() else 0
