"""Follows custom resources of one namespace, where this process leads: what they say comes into force, and their status says so.

An object gets a finalizer before it owns anything. So what it owned is retired when it is seen to be deleted, and never because it was
not seen: another cluster, a lost right or a removed definition retires nothing.
"""

import threading
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import structlog
from django.utils import timezone

from controlplane.audit.models import Entry
from controlplane.core import lease
from controlplane.core.documents.plan import managed_by
from controlplane.core.periodic import PeriodicThread
from controlplane.fleet.clusters.errors import ClusterError
from controlplane.fleet.clusters.kubernetes.client import MERGE, Api, MissingError, connect
from controlplane.fleet.clusters.kubernetes.confirm import Confirmation
from controlplane.fleet.clusters.kubernetes.watch import Watched
from controlplane.sources.core import resources
from controlplane.sources.core.resources import FINALIZER, GROUP, VERSION, Outcome, Resource, plural
from controlplane.sources.crds import KINDS
from controlplane.sources.reconcile import Declared, Fence, Reconciler

log = structlog.get_logger(__name__)
EVERY_S = 1.0
"""How often it looks whether anything has changed, there or here."""


class Follower:
    """`label` marks what the custom resources own."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self.namespace = api, namespace
        self.label = managed_by(f"cluster: {namespace}")
        self._watched: Mapping[str, Watched[Resource]] = {
            kind: Watched(api, _path(namespace, kind), Resource, optional=True) for kind in KINDS
        }
        self.confirmation = Confirmation(api, tuple(self._watched.values()), f"{namespace}'s custom resources")
        self._done: object = None

    def start(self) -> None:
        for watched in self._watched.values():
            watched.start()
        self.confirmation.start()

    def stop(self) -> None:
        for watched in self._watched.values():
            watched.stop()
        self.confirmation.stop()
        for thread in (self.confirmation, *(watched.thread for watched in self._watched.values())):
            thread.join(10)

    @property
    def problem(self) -> str:
        """Why objects are not followed, or may be old; of the first kind of which it is so."""
        away = (watched for watched in self._watched.values() if not watched.connected)
        return next((f"custom resources: {watched.problem or 'not listed yet'}" for watched in away), "")

    def step(self, fence: Fence) -> bool:
        """Bring everything up to date, where anything has changed since; says whether it had. Raises LeaseLostError."""
        now = self._state()
        if now == self._done:
            return False
        failed = self._bring_up_to_date(Reconciler(self.namespace, self.label, fence))
        self._done = None if failed else now
        return True

    def _state(self) -> object:
        newest = Entry.objects.order_by("-pk").values_list("pk", flat=True).first()
        return newest, tuple(watched.changes for watched in self._watched.values())

    def _bring_up_to_date(self, reconciler: Reconciler) -> bool:
        """Whether any call of the API failed."""
        seen = [(kind, each) for kind, watched in self._watched.items() for each in watched.objects.values()]
        leaving = {_source(kind, each): (kind, each) for kind, each in seen if each.leaves and each.is_kept}
        staying = {_source(kind, each): (kind, each) for kind, each in seen if not each.leaves}
        kept = {source: pair for source, pair in staying.items() if self._is_kept(*pair)}
        retired = reconciler.retire([_declared(*pair) for pair in leaving.values()])
        outcomes = reconciler.follow([_declared(*pair) for pair in kept.values()])
        done = [self._release(*leaving[source]) for source, outcome in retired.items() if outcome.is_ready]
        done += [self._say(*leaving[source], outcome) for source, outcome in retired.items() if not outcome.is_ready]
        done += [self._say(*kept[source], outcome) for source, outcome in outcomes.items()]
        return not all(done) or len(kept) < len(staying)

    def _is_kept(self, kind: str, resource: Resource) -> bool:
        return resource.is_kept or self._patch(
            kind, resource, {"metadata": _finalizers(resource, {*resource.metadata.finalizers, FINALIZER})}
        )

    def _release(self, kind: str, resource: Resource) -> bool:
        left = set(resource.metadata.finalizers) - {FINALIZER}
        return self._patch(kind, resource, {"metadata": _finalizers(resource, left)})

    def _say(self, kind: str, resource: Resource, outcome: Outcome) -> bool:
        said = resources.status(outcome, resource, timezone.now())
        if said == resource.status:
            return True
        log.info("resource.said", kind=kind, name=resource.metadata.name, reason=outcome.reason)
        return self._patch(kind, resource, {"status": msgspec.to_builtins(said)}, "/status")

    def _patch(self, kind: str, resource: Resource, body: dict[str, Any], of: str = "") -> bool:
        path = f"{_path(self.namespace, kind)}/{resource.metadata.name}{of}"
        try:
            self._api.request("PATCH", path, Resource, query={"fieldManager": "weir"}, body=body, content_type=MERGE)
        except MissingError:  # it has ended meanwhile
            return True
        except ClusterError as error:
            log.warning("resource.not_written", path=path, reason=str(error))
            return False
        return True


def _path(namespace: str, kind: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{plural(kind)}"


def _source(kind: str, resource: Resource) -> str:
    return f"{kind.lower()}/{resource.metadata.name}"


def _declared(kind: str, resource: Resource) -> Declared:
    is_new = resource.status.observedGeneration != resource.metadata.generation
    return Declared(kind, resource.name, _source(kind, resource), resources.document(kind, resource), is_new)


def _finalizers(resource: Resource, names: set[str]) -> dict[str, Any]:
    """With the version that was seen: somebody else may add one meanwhile."""
    return {"finalizers": sorted(names), "resourceVersion": resource.metadata.resourceVersion}


def follow(namespace: str, name: str, holder: str, lasts: timedelta, stopping: threading.Event) -> Follower:
    """Follow in a thread, until `stopping`, while this process holds the lease `name`. In the cluster that it runs in."""
    follower = Follower(Api(partial(connect, None)), namespace)

    def step() -> None:
        generation = 0 if stopping.is_set() else lease.take(name, holder, timezone.now(), lasts)
        if generation:
            try:
                follower.step(partial(lease.fence, name, holder, generation))
            except lease.LeaseLostError as lost:
                log.warning("resources.lease_lost", reason=str(lost))

    follower.start()
    PeriodicThread("custom resources", step, EVERY_S).start()
    return follower
