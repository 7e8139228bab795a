"""Everything of a namespace that is watched, and how old it is."""

import time
from typing import Any

from controlplane.fleet.clusters.kubernetes import paths
from controlplane.fleet.clusters.kubernetes.client import Api
from controlplane.fleet.clusters.kubernetes.confirm import Confirmation
from controlplane.fleet.clusters.kubernetes.gpus import has_gpus
from controlplane.fleet.clusters.kubernetes.objects import (
    Autoscaler,
    Deployment,
    EndpointSlice,
    Node,
    PlacedPod,
    Pod,
    Quota,
)
from controlplane.fleet.clusters.kubernetes.watch import Watched

PLACED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Selects pods that have a node and have not ended: they have what they request."""


class Watches:
    """Watches every kind, and confirms that the server still answers."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.deployments = Watched(api, paths.deployments(namespace), Deployment)
        self.pods = Watched(api, paths.pods(namespace), Pod)
        self.autoscalers = Watched(api, paths.autoscalers(namespace), Autoscaler)
        self.slices = Watched(api, paths.endpoint_slices(namespace), EndpointSlice)
        self.quotas = Watched(api, paths.quotas(namespace), Quota, optional=True)
        self.nodes = Watched(api, paths.NODES, Node, optional=True)
        elsewhere = f"metadata.namespace!={namespace},{PLACED}"
        self.pods_elsewhere = Watched(
            api, paths.PODS, PlacedPod, optional=True, fields=elsewhere, keeps=has_gpus, key="uid"
        )
        self.all: list[Watched[Any]] = [
            self.deployments, self.pods, self.autoscalers, self.slices, self.quotas, self.nodes, self.pods_elsewhere,
        ]  # fmt: skip
        self.confirmation = Confirmation(api, self.all, namespace)

    def start(self) -> None:
        for watched in self.all:
            watched.start()
        self.confirmation.start()

    def stop(self) -> None:
        """Ends within a call's timeout."""
        self.confirmation.stop()
        for watched in self.all:
            watched.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait until every thread has ended, and say whether they have."""
        until = time.monotonic() + timeout_s
        for thread in (self.confirmation, *(watched.thread for watched in self.all)):
            thread.join(max(0.0, until - time.monotonic()))
        return not any(watched.thread.is_alive() for watched in self.all)

    @property
    def _counted(self) -> list[Watched[Any]]:
        """Those without which the state is not known."""
        return [watched for watched in self.all if not (watched.optional and watched.refused)]

    @property
    def connected(self) -> bool:
        return not self.confirmation.problem and all(watched.connected for watched in self._counted)

    @property
    def problem(self) -> str:
        """The first thing that is wrong."""
        return next((watched.problem for watched in self._counted if watched.problem), self.confirmation.problem)

    @property
    def confirmed_at(self) -> float | None:
        """Monotonic: when the server last confirmed all of it. None while any of it has not been seen."""
        times = [watched.confirmed_at for watched in self._counted]
        known = [at for at in times if at is not None]
        return min(known) if len(known) == len(times) else None

    @property
    def version(self) -> tuple[int, ...]:
        """Another one whenever anything has changed."""
        return tuple(watched.changes for watched in self.all)
