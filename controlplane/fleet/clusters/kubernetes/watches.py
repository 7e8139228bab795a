"""Everything of a namespace that is watched, and how old it is."""

import threading
import time
from typing import Any

import msgspec
import structlog

from controlplane.fleet.clusters.errors import ClusterError, ThrottledError
from controlplane.fleet.clusters.kubernetes import paths
from controlplane.fleet.clusters.kubernetes.client import Api
from controlplane.fleet.clusters.kubernetes.gpus import has_gpus
from controlplane.fleet.clusters.kubernetes.objects import (
    Autoscaler,
    Deployment,
    EndpointSlice,
    ListMetadata,
    Node,
    PlacedPod,
    Pod,
    Quota,
)
from controlplane.fleet.clusters.kubernetes.watch import Watched

log = structlog.get_logger(__name__)

CONFIRM_EVERY_S = 2.0
PLACED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Selects pods that have a node and have not ended: they have what they request."""


class _Page(msgspec.Struct):
    metadata: ListMetadata


class Watches:
    """Watches every kind, and confirms every CONFIRM_EVERY_S that the server still answers: a quiet watch says nothing."""

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
        self._unconfirmed = ""
        self.revision = 0
        """Of the server's history, as it was last confirmed; 0 while that is not known."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._confirm, name=f"confirm {namespace}", daemon=True)

    def start(self) -> None:
        for watched in self.all:
            watched.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends within a call's timeout."""
        self._stopped.set()
        for watched in self.all:
            watched.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait until every thread has ended, and say whether they have."""
        until = time.monotonic() + timeout_s
        for thread in (self._thread, *(watched.thread for watched in self.all)):
            thread.join(max(0.0, until - time.monotonic()))
        return not any(watched.thread.is_alive() for watched in self.all)

    @property
    def _counted(self) -> list[Watched[Any]]:
        """Those without which the state is not known."""
        return [watched for watched in self.all if not (watched.optional and watched.refused)]

    @property
    def connected(self) -> bool:
        return not self._unconfirmed and all(watched.connected for watched in self._counted)

    @property
    def problem(self) -> str:
        """The first thing that is wrong."""
        return next((watched.problem for watched in self._counted if watched.problem), self._unconfirmed)

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

    def _confirm(self) -> None:
        """A list of a single object is read through to the store, so it fails where events would not come either."""
        wait_s = CONFIRM_EVERY_S
        while not self._stopped.wait(wait_s):
            began, wait_s = time.monotonic(), CONFIRM_EVERY_S
            try:
                page = self._api.request("GET", self.deployments.path, _Page, query={"limit": "1"})
            except ClusterError as error:
                if not self._unconfirmed:
                    log.warning("cluster.not_confirmed", path=self.deployments.path, reason=str(error))
                self._unconfirmed = str(error)
                if isinstance(error, ThrottledError):
                    wait_s = max(wait_s, error.retry_after_s)
            else:
                self._unconfirmed = ""
                self._note(page.metadata.resourceVersion)
                for watched in self.all:
                    watched.confirm(began)

    def _note(self, version: str) -> None:
        """A store that was restored from a backup has another history: watches would go on where that has not come yet, and say nothing."""
        revision = int(version) if version.isascii() and version.isdecimal() else self.revision
        if revision < self.revision:
            log.warning("cluster.set_back", path=self.deployments.path, revision=revision, before=self.revision)
            self._api.moves_on()
        self.revision = revision
