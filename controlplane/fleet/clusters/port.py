"""What Weir wants of a place where replicas run: a Kubernetes cluster, or the processes of one machine.

All values are plain and frozen, so that they can go into a decision record. Times are ms since 1970. What is not known is None.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

Manifest = Mapping[str, Any]
"""A Kubernetes object, as YAML or JSON reads it."""

WEIR, HAND = "weir", "hand"
SLOTS = "slots"
"""What a replica takes one of on one machine, in the place of GPUs."""
GATEWAY = "gateway:"
"""Begins the names under which a cluster shows, among its pools, the gateways that it runs: `gateway:WORKLOAD`."""


class PoolBinding(msgspec.Struct, frozen=True):
    """What a cluster has to know of a pool that it runs."""

    pool: str
    workload: str
    """The name of its Deployment."""
    protocol: Literal["triton", "openai"]


class ReplicaSeen(msgspec.Struct, frozen=True):
    """One replica of a pool, as its cluster has it."""

    name: str
    pool: str
    address: str
    """What `Replica.url` or `Replica.grpc` takes, by the pool's protocol; empty while it has none."""
    created_ms: int
    ready: bool = False
    terminating: bool = False
    http: str = ""
    """host:port of a Triton's HTTP, for its health."""
    metrics: str = ""
    """host:port of its Prometheus page."""
    pending_reason: str = ""
    """Why it has no place yet, as the cluster says it, such as "Unschedulable: 0/3 nodes …"; empty once it has one."""
    pending_since_ms: int | None = None
    fault: str = ""
    """Why it cannot run although it has a place: its container, the reason, and how it ended last; that it was not ready by the workload's
    deadline; or that its node does not answer. Empty where it can.
    """
    lost: bool = False
    """Its node does not answer, as `fault` says: nobody knows whether it runs, and has requests."""
    ends_ms: int | None = None
    """When the cluster ends it by force; None while nobody has told it to end."""


class AutoscalerSeen(msgspec.Struct, frozen=True):
    """A HorizontalPodAutoscaler that sets the count of a pool."""

    name: str
    min_replicas: int
    max_replicas: int
    owner_min_replicas: int | None = None
    """The least that its owner has set, before Weir raised it."""
    kept_by: str = ""
    """Who would set its floor back, and what its owner can do, as a sentence; empty where Weir may set it."""


class PoolSeen(msgspec.Struct, frozen=True):
    """A pool, as its cluster has it."""

    pool: str
    wanted: int | None = None
    """The count that was set; None where there is no workload."""
    token: str = ""
    """Names the state that was seen (the Deployment's; empty in the local cluster). `scale` takes it, and refuses an old one."""
    replicas: tuple[ReplicaSeen, ...] = ()
    owner_of_count: str = WEIR
    """`weir`; `hpa:NAME` where a HorizontalPodAutoscaler sets the count; `hand` where somebody else has set it since Weir did."""
    taken_on: bool = True
    """Whether a leader has claimed it, so that a count which somebody else sets later is known as such; also where there is no workload."""
    count_set_by: str = ""
    """The field manager that set the count last, such as "kubectl-edit"; empty where that is not known."""
    autoscaler: AutoscalerSeen | None = None
    problem: str = ""
    """Why this pool cannot be managed; empty where it can."""
    rollout: str = ""
    """What is under way while replicas of an older template are there, or what keeps replicas from being created; empty: neither."""
    rollout_stuck: bool = False
    """The cluster says that it makes no progress, or that replicas cannot be created."""
    gpus_per_replica: int | None = None
    """That a replica which is created now asks for; None where that is not said in numbers."""


class GpusSeen(msgspec.Struct, frozen=True):
    """GPUs of one resource, such as `nvidia.com/gpu`."""

    allocatable: int
    """As many as the namespace's quota allows, else as many as the nodes have."""
    requested: int
    """Of them in use. Where nodes are counted and pods of other namespaces may not be read, theirs count as free."""
    waiting_too: bool = False
    """Whether those of pods that have no node yet are among the requested, as a quota counts them."""


class ClusterSeen(msgspec.Struct, frozen=True):
    """A cluster's state. It is never newer than `seen_ms`; what has not been seen yet has neither pools nor `seen_ms`."""

    cluster: str
    pools: Mapping[str, PoolSeen] = {}
    seen_ms: int | None = None
    """When the cluster last confirmed all of this; None: never."""
    age_ms: int | None = None
    problem: str = ""
    """Why the state is not known, or is old; empty where it is current."""
    gpus: Mapping[str, GpusSeen] = {}
    gateways: tuple[str, ...] = ()
    """URLs of all gateways that are ready."""
    other_gateways: Mapping[str, int | None] = {}
    """URLs of gateways that are there and not ready, and until when in ms each may be. They may have requests: a gateway that ends
    finishes those that it has.
    """
    strangers: frozenset[str] = frozenset()
    """Of all these URLs, those that lead to gateways by a Service alone: no Deployment with Weir's label runs them. No token goes there."""
    watching: bool = False
    """Whether changes arrive by themselves at this moment."""


class Difference(msgspec.Struct, frozen=True):
    """What applying a manifest changes, or would change."""

    kind: str
    name: str
    action: Literal["create", "change", "adopt", "refused", "none"]
    """`adopt`: it exists and somebody else made it; applying makes Weir a manager of the fields of the manifest. `refused`: the
    cluster does not take it, as `problem` says.
    """
    changes: tuple[tuple[str, Any, Any], ...] = ()
    """Path, value before, value after. None is absent."""
    taken_from: tuple[tuple[str, str], ...] = ()
    """Path and manager of each field that somebody else manages and the manifest sets otherwise."""
    problem: str = ""
    stays: tuple[str, ...] = ()
    """Containers of somebody else that the manifest does not name, and that stay in its pods."""
    warnings: tuple[str, ...] = ()
    """What the cluster takes and warns of, such as pods that it will refuse to create."""


class Cluster(Protocol):
    """One cluster. Every method but `seen` may take as long as the timeout of a call, and raises ClusterError.

    `generation` is that of the caller's lease. Once a cluster has had a write of a newer generation, writes of an older one
    raise StaleLeaderError. `token` is `PoolSeen.token`; where the state has changed since, ConflictError. The local cluster, which
    is for a demo, checks neither.
    """

    name: str

    def bind(self, pools: Sequence[PoolBinding]) -> None:
        """Say which pools run here. Takes effect with the next `seen`."""

    def seen(self) -> ClusterSeen:
        """The latest state, which is kept up to date in the background. Never blocks, never raises."""

    def claim(self, generation: int, pools: Collection[str]) -> None:
        """Refuse older leaders from now on, at `pools` and wherever a leader has written before; nothing else is touched. Called by a new
        leader before it changes anything, when policies come to name other pools, and where workloads are created.
        """

    def fences(self) -> Mapping[str, int]:
        """What bears the generation of the leader that wrote to it last, by its name: older leaders are refused there. Asks the cluster."""

    def scale(self, pool: str, replicas: int, *, token: str, generation: int) -> str:
        """Set how many replicas the pool should have, and become the owner of that count. Returns the token of the state after it."""

    def prefer_removal(self, pool: str, replicas: Sequence[str], *, generation: int) -> None:
        """Name the replicas that go first when the pool shrinks; the next call replaces them. Replicas that are not ready go
        before them all the same.
        """

    def raise_floor(self, pool: str, min_replicas: int, *, generation: int) -> None:
        """Set the least that the pool's HorizontalPodAutoscaler may choose: never less than its owner has set. Its maximum stays."""

    def publish(self, document: bytes, *, generation: int) -> None:
        """Store the policy snapshot in the cluster, for gateways that read it there. Nothing is written where it is the same."""

    def apply(self, manifests: Sequence[Manifest], *, dry_run: bool, adopt: bool = False) -> list[Difference]:
        """Create or change objects. Fields that somebody else manages raise SecondOwnerError, unless `adopt`; a dry run
        lists them instead.
        """

    def close(self) -> None:
        """End everything that works in the background."""
