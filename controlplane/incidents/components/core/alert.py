"""What is known of one component at one moment: what its incident is made of. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from controlplane.slo.core.alert import State
from controlplane.slo.core.windows import Severity

PREFIX = "component:"
"""Of the keys of these alerts. An objective's slug has no colon, so that the keys never meet."""

Kind = Literal["gateway", "cache", "telemetry", "worker", "controller", "observer", "pool", "replica", "objectives"]


@dataclass(frozen=True, slots=True)
class ComponentAlert:
    """`firing`: it is down, and has been for long enough. `unknown`: nobody has looked, or it is not decided yet; that opens nothing
    and resolves nothing."""

    component: str  # as the overview's row is called: "gateway", "pool:chat-large-local", "chat-large-local/triton-0"
    name: str  # as people read it
    kind: Kind
    state: State
    severity: Severity  # of its incident
    at_ns: int
    since: datetime | None = None  # when it was first seen down; of what tells of itself, when it was last heard of
    up_at: datetime | None = None  # when it was last seen up
    error: str = ""  # what was answered when it was asked
    scope: Mapping[str, str] = field(default_factory=dict)
    explains: tuple[Mapping[str, str], ...] = ()  # the scopes of the traffic that fails because of it
    explained_by: tuple[str, ...] = ()  # keys of the alerts of components that it is down because of
    owner: str = ""
    up: int | None = None  # replicas of a pool that are up
    of: int | None = None  # its replicas
    names: tuple[str, ...] = ()  # of objectives that cannot be judged
    maintenance: bool = False

    @property
    def key(self) -> str:
        return key_of(self.component)


def key_of(component: str) -> str:
    return f"{PREFIX}{component}"
