"""What is known of one component at one moment; its incident is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from controlplane.slo.core.alert import State
from controlplane.slo.core.windows import Severity

PREFIX = "component:"
"""Begins the keys of these alerts. An objective's slug has no colon, so keys of both never clash."""

Kind = Literal[
    "gateway", "cache", "similar", "spans", "telemetry", "lane", "worker", "controller", "observer", "pool", "replica", "objectives",
    "policies", "policy", "policy_metrics", "policy_gpus", "policy_pending",
    "policy_failing", "policy_rollout", "policy_capacity", "policy_owner", "policy_canary", "policy_failover", "policy_snapshot",
    "policy_fence", "policy_gateway", "cluster",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComponentAlert:
    """`firing`: it is down, and has been for long enough. `unknown`: it was not observed lately, or it is not decided
    yet; this opens nothing and resolves nothing."""

    component: str  # the name of the overview's row: "gateway", "pool:chat-large-local", "chat-large-local/triton-0"
    name: str  # for page texts
    kind: Kind
    state: State
    severity: Severity  # of its incident
    at_ns: int
    since: datetime | None = None  # when it was first seen down, or when a process that reports by itself last did
    up_at: datetime | None = None  # when it was last seen up
    error: str = ""  # of its probe
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
