"""Custom resources as documents, and what is said of them in their status."""

# ruff: noqa: N815
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from controlplane.core.documents.writing import write_yaml
from controlplane.fleet.clusters.kubernetes import objects

GROUP, VERSION = "weir.dev", "v1"
FINALIZER = f"{GROUP}/retire"
"""Keeps a deleted object until what it owned is retired, so that nothing is ever retired because an object was not seen."""
NAME, TEAM = f"{GROUP}/name", f"{GROUP}/team"
"""Annotations: the name in Weir, where Kubernetes does not allow it; the team of a policy."""
MAX_MESSAGE = 1_000

Reason = Literal["Applied", "Invalid", "Conflict", "WaitsForApproval", "InUse", "Drifted"]


class Outcome(NamedTuple):
    """What became of a custom resource."""

    reason: Reason
    message: str

    @property
    def is_ready(self) -> bool:
        return self.reason == "Applied"

    @property
    def is_stalled(self) -> bool:
        """Whether somebody has to change something, as kstatus calls it."""
        return self.reason not in ("Applied", "WaitsForApproval")


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/condition-v1-meta/"""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: str = ""
    observedGeneration: int = 0


class Status(msgspec.Struct, frozen=True):
    observedGeneration: int = 0
    conditions: tuple[Condition, ...] = ()


class Metadata(objects.Metadata, frozen=True):
    generation: int = 0
    finalizers: tuple[str, ...] = ()


class Resource(msgspec.Struct, frozen=True):
    """Of a kind that is known from where it is: lists do not say it."""

    metadata: Metadata
    spec: Any = None
    status: Status = Status()

    @property
    def name(self) -> str:
        """In Weir."""
        return self.metadata.annotations.get(NAME) or self.metadata.name

    @property
    def leaves(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    @property
    def is_kept(self) -> bool:
        return FINALIZER in self.metadata.finalizers


def plural(kind: str) -> str:
    """`routings`, `stagetimeouts`."""
    name = kind.lower()
    return name if name.endswith("s") else f"{name}s"


def document(kind: str, resource: Resource) -> str:
    """As it would be in a file."""
    team = resource.metadata.annotations.get(TEAM)
    metadata = {"name": resource.name, **({"team": team} if team else {})}
    spec = {} if resource.spec is None else {"spec": resource.spec}
    return write_yaml({"apiVersion": "weir/v1", "kind": kind, "metadata": metadata, **spec})


def status(outcome: Outcome, resource: Resource, now: datetime) -> Status:
    """What is said of it from now on. A condition keeps its time for as long as its status is the same."""
    generation = resource.metadata.generation
    flags = {"Ready": outcome.is_ready, "Stalled": outcome.is_stalled}
    conditions = tuple(
        Condition(
            name,
            str(flag),
            outcome.reason,
            outcome.message[:MAX_MESSAGE],
            _since(resource.status.conditions, name, str(flag)) or f"{now:%Y-%m-%dT%H:%M:%SZ}",
            generation,
        )
        for name, flag in flags.items()
    )
    return Status(generation, conditions)


def _since(before: Sequence[Condition], name: str, flag: str) -> str:
    return next((each.lastTransitionTime for each in before if (each.type, each.status) == (name, flag)), "")
