"""Kubernetes' objects, of which only what Weir reads. Names are those of the API, versions are in `paths.py`."""

# ruff: noqa: N815
from datetime import datetime

import msgspec

Labels = dict[str, str]
ENDED = ("Succeeded", "Failed")
"""Phases of pods that have ended."""


class Expression(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True):
    matchLabels: Labels = {}
    matchExpressions: tuple[Expression, ...] = ()


class Field(msgspec.Struct, frozen=True):
    """An entry of `managedFields`: who set which fields last."""

    manager: str = ""
    fieldsV1: msgspec.Raw = msgspec.Raw(b"{}")


class Owner(msgspec.Struct, frozen=True):
    kind: str
    name: str
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""
    labels: Labels = {}
    annotations: Labels = {}
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    ownerReferences: tuple[Owner, ...] = ()


class MetadataWithFields(Metadata, frozen=True):
    managedFields: tuple[Field, ...] = ()


class ContainerPort(msgspec.Struct, frozen=True):
    containerPort: int
    name: str = ""


class Resources(msgspec.Struct, frozen=True):
    requests: Labels = {}
    limits: Labels = {}


class Container(msgspec.Struct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()


class PodSpec(msgspec.Struct, frozen=True):
    nodeName: str = ""
    nodeSelector: Labels = {}
    containers: tuple[Container, ...] = ()


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str | None = ""
    message: str | None = ""
    lastTransitionTime: datetime | None = None


class Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True):
    exitCode: int = 0
    reason: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    restartCount: int = 0
    state: ContainerState = ContainerState()
    lastState: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    podIP: str = ""
    conditions: tuple[Condition, ...] = ()
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PlacedMetadata(msgspec.Struct, frozen=True):
    uid: str
    resourceVersion: str = ""


class PlacedPod(msgspec.Struct, frozen=True):
    """A pod that has a node, of which only what it requests counts."""

    metadata: PlacedMetadata
    spec: PodSpec = PodSpec()


class Template(msgspec.Struct, frozen=True):
    spec: PodSpec = PodSpec()


class DeploymentSpec(msgspec.Struct, frozen=True):
    selector: Selector = Selector()
    replicas: int = 1
    paused: bool = False
    template: Template = Template()


class DeploymentStatus(msgspec.Struct, frozen=True):
    replicas: int = 0
    updatedReplicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(msgspec.Struct, frozen=True):
    metadata: MetadataWithFields
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class Target(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(msgspec.Struct, frozen=True):
    scaleTargetRef: Target = Target()
    minReplicas: int = 1
    maxReplicas: int = 1


class Autoscaler(msgspec.Struct, frozen=True):
    metadata: MetadataWithFields
    spec: AutoscalerSpec = AutoscalerSpec()


class EndpointPort(msgspec.Struct, frozen=True):
    name: str | None = ""
    port: int | None = None


class EndpointConditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    targetRef: Target | None = None


class EndpointSlice(msgspec.Struct, frozen=True):
    metadata: Metadata
    endpoints: tuple[Endpoint, ...] | None = ()
    ports: tuple[EndpointPort, ...] | None = ()


class QuotaScope(msgspec.Struct, frozen=True):
    scopeName: str = ""


class QuotaScopeSelector(msgspec.Struct, frozen=True):
    matchExpressions: tuple[QuotaScope, ...] = ()


class QuotaSpec(msgspec.Struct, frozen=True):
    scopes: tuple[str, ...] = ()
    scopeSelector: QuotaScopeSelector = QuotaScopeSelector()


class QuotaStatus(msgspec.Struct, frozen=True):
    hard: Labels = {}
    used: Labels = {}


class Quota(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: Labels = {}
    conditions: tuple[Condition, ...] = ()


class Node(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ListMetadata(msgspec.Struct, frozen=True):
    resourceVersion: str = ""
    next: str = msgspec.field(name="continue", default="")


def ms(moment: datetime | None) -> int | None:
    """ms since 1970."""
    return None if moment is None else round(moment.timestamp() * 1000)
