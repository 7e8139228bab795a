"""A namespace of a Kubernetes cluster, behind the port."""

import platform
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from controlplane.fleet.clusters.errors import ConflictError, ForbiddenError, InvalidError
from controlplane.fleet.clusters.kubernetes import faults, fence, gpus, manifests, paths, view
from controlplane.fleet.clusters.kubernetes.client import APPLY, MERGE, Api, MissingError
from controlplane.fleet.clusters.kubernetes.objects import Autoscaler, Deployment, Metadata, Pod
from controlplane.fleet.clusters.kubernetes.view import Token
from controlplane.fleet.clusters.kubernetes.watches import Watches
from controlplane.fleet.clusters.port import GATEWAY, ClusterSeen, Difference, Manifest, PoolBinding, PoolSeen

log = structlog.get_logger(__name__)

SNAPSHOT, SNAPSHOT_KEY, MAX_BYTES = "weir-snapshot", "snapshot.json", 1 << 20
"""The ConfigMap of the policy snapshot, and the most that it takes (Kubernetes' limit)."""
GATEWAY_SERVICE = "weir-gateway"
FIRST_COST = 1_000
MAX_GENERATIONS = 2**31 - 1 - FIRST_COST


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    data: dict[str, str] = {}


class _Pods(msgspec.Struct, frozen=True):
    items: tuple[Pod, ...] = ()


class _ScaleSpec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: _ScaleSpec = _ScaleSpec()


class KubernetesCluster:
    """Watches in the background from `start` to `close`."""

    def __init__(self, name: str, api: Api, namespace: str) -> None:
        self.name = name
        self.namespace = namespace
        self._api = api
        self._bindings: Mapping[str, PoolBinding] = {}
        self._watches = Watches(api, namespace)
        self._built: tuple[tuple[object, object], ClusterSeen] | None = None

    def start(self) -> "KubernetesCluster":
        self._watches.start()
        return self

    def close(self) -> None:
        self._watches.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait until nothing works in the background any more, and say whether that is so."""
        ended = self._watches.join(timeout_s)
        self._api.close()
        return ended

    def bind(self, pools: Sequence[PoolBinding]) -> None:
        bindings = {binding.pool: binding for binding in pools}
        if bindings != self._bindings:
            self._bindings = bindings

    # What is seen

    def seen(self) -> ClusterSeen:
        watches = self._watches
        confirmed_at = watches.confirmed_at
        if confirmed_at is None:
            reason = watches.problem or "It has not answered yet."
            return ClusterSeen(self.name, problem=f"Nothing of this cluster has been seen. {reason}")
        key = (watches.version, self._bindings)
        if self._built is None or self._built[0] != key:
            self._built = (key, self._build())
        age_ms = max(0, round((time.monotonic() - confirmed_at) * 1000))
        return msgspec.structs.replace(
            self._built[1],
            seen_ms=time.time_ns() // 1_000_000 - age_ms,
            age_ms=age_ms,
            problem=watches.problem,
            watching=watches.connected,
        )

    def _build(self) -> ClusterSeen:
        watches = self._watches
        by_workload = view.pods_by_workload(watches.pods.objects.values())
        rejected = view.rejected_by_workload(watches.pods.objects.values())
        silent = faults.silent_nodes(watches.nodes.objects.values())
        slices = tuple(watches.slices.objects.values())
        service_ports = view.service_ports(slices)
        bindings = [*self._bindings.values(), *map(_gateway_binding, self._gateways())]
        pools = {
            binding.pool: view.pool_seen(
                binding,
                watches.deployments.objects.get(binding.workload),
                by_workload.get(binding.workload, ()),
                watches.autoscalers.objects.values(),
                service_ports,
                rejected.get(binding.workload, ()),
                silent,
            )
            for binding in bindings
        }
        its_gpus = gpus.gpus_seen(
            watches.quotas.objects.values(),
            watches.nodes.objects.values(),
            watches.pods.objects.values(),
            watches.pods_elsewhere.objects.values(),
        )
        tiers = [pool for name, pool in pools.items() if name.startswith(GATEWAY)]
        of_service = view.gateway_urls(slices, GATEWAY_SERVICE)
        ready, others = view.gateways_seen(tiers, of_service)
        known = {replica.address.removesuffix("/v1") for tier in tiers for replica in tier.replicas}
        strangers = frozenset(of_service.keys() - known)
        return ClusterSeen(
            self.name, pools=pools, gpus=its_gpus, gateways=ready, other_gateways=others, strangers=strangers
        )

    def _gateways(self) -> list[str]:
        """The names of the Deployments of gateways, by their label."""
        name, value = paths.GATEWAY_LABEL
        every = self._watches.deployments.objects.values()
        return sorted(it.metadata.name for it in every if it.metadata.labels.get(name) == value)

    # What is written

    def fences(self) -> Mapping[str, int]:
        return fence.fences(self._api, self.namespace, SNAPSHOT)

    def claim(self, generation: int, pools: Collection[str]) -> None:
        _check_generation(generation)
        fence.claim_lease(self._api, self.namespace, platform.node(), generation)
        for binding in [*self._bindings.values(), *map(_gateway_binding, self._gateways())]:
            path = paths.deployments(self.namespace, binding.workload)
            mark = partial(self._mark, path, generation, binding.pool in pools)
            try:
                fence.persist(partial(self._api.request, "GET", path, Deployment), mark)
            except MissingError:  # `seen` says so
                continue
            except (ForbiddenError, InvalidError) as error:  # as will be its count; no other pool waits for it
                log.warning("cluster.pool_not_claimed", cluster=self.name, pool=binding.pool, reason=str(error))
        log.info("cluster.claimed", cluster=self.name, generation=generation, pools=len(pools))

    def _mark(self, path: str, generation: int, named: bool, seen: Deployment) -> Deployment:
        """Of a Deployment that no policy names, only where another leader has marked it."""
        token = Token.of(seen)
        if named or token.fence:
            self._taken_on(path, token, generation)
        return seen

    def _taken_on(self, path: str, seen: Token, generation: int) -> str:
        """Write the generation to the Deployment, where it has another, and return its version after that.

        Before that for the first time, Weir becomes an owner of the count as it is. So a count that Weir does not own later on is
        somebody else's, also where Weir has never changed it.
        """
        if seen.fence == generation:
            return seen.version
        version = seen.version
        if seen.fence == 0:
            version = self._set_count(path, version, seen.replicas).metadata.resourceVersion
        meta = Metadata(
            name=path.rpartition("/")[2],
            uid=seen.uid,
            resourceVersion=version,
            annotations={paths.FENCE: str(seen.fence)} if seen.fence else {},
        )
        return fence.mark(self._api, path, meta, generation).resourceVersion

    def _set_count(self, path: str, version: str, replicas: int) -> _Scale:
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": path.rpartition("/")[2], "namespace": self.namespace, "resourceVersion": version},
            "spec": {"replicas": replicas},
        }
        query = {"fieldManager": paths.MANAGER, "force": "true"}
        return self._api.request("PATCH", f"{path}/scale", _Scale, query=query, body=body, content_type=APPLY)

    def scale(self, pool: str, replicas: int, *, token: str, generation: int) -> str:
        """A change of anything but the count since `token`, such as of the status, is no conflict."""
        _check_generation(generation)
        if replicas < 0:
            raise InvalidError(f"Pool {pool}: {replicas} replicas are less than none. Set 0 or more.")
        path = paths.deployments(self.namespace, self._binding(pool).workload)
        try:
            seen = Token.parse(token)
        except ValueError as error:
            raise InvalidError(f"Pool {pool}: “{token}” is no token of a pool. Pass on what `seen` gave.") from error
        for tries_left in reversed(range(fence.TRIES)):
            fence.check(f"Deployment of pool {pool}", seen.fence, generation)
            try:
                after = self._set_count(path, self._taken_on(path, seen, generation), replicas)
                return str(
                    Token(seen.uid, after.metadata.resourceVersion, generation, after.spec.replicas, paths.MANAGER)
                )
            except ConflictError as error:
                now = Token.of(self._api.request("GET", path, Deployment))
                fence.check(f"Deployment of pool {pool}", now.fence, generation)
                if not now.is_same_count(seen):
                    raise ConflictError(
                        f"Pool {pool}: its count has changed since it was looked at. Nothing was written.", 0.0
                    ) from error
                if not tries_left:
                    raise
                seen = now
        raise AssertionError

    def prefer_removal(self, pool: str, replicas: Sequence[str], *, generation: int) -> None:
        """By pod-deletion cost. A newer leader's pods cost less than an older one's, whichever wrote last.

        https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
        """
        _check_generation(generation)
        mine = self._pods_now(self._binding(pool).workload)
        wanted = set(replicas)
        unknown = wanted - {pod.metadata.name for pod in mine}
        if unknown:
            raise ConflictError(f"Pool {pool} has no replica “{min(unknown)}” by now. Look again which there are.")
        cost = str(-FIRST_COST - generation)
        for pod in mine:
            name, has = pod.metadata.name, pod.metadata.annotations.get(paths.DELETION_COST)
            value = cost if name in wanted else None
            if has != value and (name in wanted or paths.FENCE in pod.metadata.annotations):
                self._annotate_pod(name, value, generation)

    def _pods_now(self, workload: str) -> Sequence[Pod]:
        """Asks the API server: a watch may not have seen yet which pods were named before."""
        deployment = self._watches.deployments.objects.get(workload)
        labels = deployment.spec.selector.matchLabels if deployment else {}
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}
        pods = self._api.request("GET", paths.pods(self.namespace), _Pods, query=query).items
        return view.pods_by_workload(pods).get(workload, ())

    def _annotate_pod(self, name: str, cost: str | None, generation: int) -> None:
        path = paths.pods(self.namespace, name)

        def write(seen: Pod) -> Pod:
            fence.check(f"Pod “{name}”", view.fence_of(seen.metadata.annotations), generation)
            body = {
                "metadata": {
                    "resourceVersion": seen.metadata.resourceVersion,
                    "annotations": {paths.DELETION_COST: cost, paths.FENCE: str(generation)},
                }
            }
            query = {"fieldManager": paths.MANAGER}
            return self._api.request("PATCH", path, Pod, query=query, body=body, content_type=MERGE)

        try:
            fence.persist(partial(self._api.request, "GET", path, Pod), write)
        except MissingError:  # it has ended meanwhile
            return

    def raise_floor(self, pool: str, min_replicas: int, *, generation: int) -> None:
        _check_generation(generation)
        scaler = self._pool(pool).autoscaler
        if scaler is None:
            raise InvalidError(f"Pool {pool} has no HorizontalPodAutoscaler whose floor could be raised.")
        path = paths.autoscalers(self.namespace, scaler.name)

        def write(seen: Autoscaler) -> Autoscaler:
            meta, own = seen.metadata, view.own_floor(seen)
            if kept_by := view.floor_kept_by(seen):
                raise InvalidError(f"Pool {pool}: {kept_by}")
            fence.check(f"HorizontalPodAutoscaler “{meta.name}”", view.fence_of(meta.annotations), generation)
            floor = max(min_replicas, own)
            if floor > seen.spec.maxReplicas:
                raise InvalidError(
                    f"Pool {pool}: a floor of {floor} replicas is above the {seen.spec.maxReplicas} that "
                    f"HorizontalPodAutoscaler “{meta.name}” allows. Raise its maxReplicas."
                )
            if floor == seen.spec.minReplicas and view.fence_of(meta.annotations) == generation:
                return seen
            annotations = {paths.FENCE: str(generation), paths.OWN_FLOOR: str(own)}
            body = {
                "metadata": {"resourceVersion": meta.resourceVersion, "annotations": annotations},
                "spec": {"minReplicas": floor},
            }
            query = {"fieldManager": paths.MANAGER}
            return self._api.request("PATCH", path, Autoscaler, query=query, body=body, content_type=MERGE)

        fence.persist(partial(self._api.request, "GET", path, Autoscaler), write)

    def publish(self, document: bytes, *, generation: int) -> None:
        _check_generation(generation)
        if len(document) > MAX_BYTES:
            raise InvalidError(
                f"The policy snapshot has {len(document)} bytes, and a ConfigMap takes {MAX_BYTES}. Let gateways read it over "
                "HTTP from the web process."
            )
        path, text = paths.config_maps(self.namespace, SNAPSHOT), document.decode()

        def write(seen: _ConfigMap | None) -> _ConfigMap | None:
            metadata: dict[str, Any] = {"name": SNAPSHOT, "annotations": {paths.FENCE: str(generation)}}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {SNAPSHOT_KEY: text}}
            if seen is None:
                query = {"fieldManager": paths.MANAGER}
                return self._api.request("POST", paths.config_maps(self.namespace), _ConfigMap, query=query, body=body)
            written_by = view.fence_of(seen.metadata.annotations)
            fence.check(f"ConfigMap “{SNAPSHOT}”", written_by, generation)
            if seen.data.get(SNAPSHOT_KEY) == text and written_by == generation:
                return seen
            metadata |= {"resourceVersion": seen.metadata.resourceVersion, "uid": seen.metadata.uid}
            query = {"fieldManager": paths.MANAGER, "force": "true"}
            return self._api.request("PATCH", path, _ConfigMap, query=query, body=body, content_type=APPLY)

        fence.persist(partial(self._api.find, path, _ConfigMap), write)

    def apply(self, objects: Sequence[Manifest], *, dry_run: bool, adopt: bool = False) -> list[Difference]:
        return manifests.apply(self._api, self.namespace, objects, dry_run=dry_run, adopt=adopt)

    def _binding(self, pool: str) -> PoolBinding:
        name = pool.removeprefix(GATEWAY)
        if name != pool and name in self._gateways():
            return _gateway_binding(name)
        try:
            return self._bindings[pool]
        except KeyError:
            raise InvalidError(f"Pool {pool} is not in cluster {self.name}. Choose the cluster in the pool.") from None

    def _pool(self, pool: str) -> PoolSeen:
        self._binding(pool)
        return self.seen().pools.get(pool, PoolSeen(pool))


def _gateway_binding(workload: str) -> PoolBinding:
    return PoolBinding(f"{GATEWAY}{workload}", workload, "openai")


def _check_generation(generation: int) -> None:
    if not 0 < generation <= MAX_GENERATIONS:
        raise InvalidError(
            f"{generation} is no generation of a lease: only the leader writes, and its generation is 1 or more."
        )
