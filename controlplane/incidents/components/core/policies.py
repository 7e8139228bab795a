"""Alerts of what keeps policies from being followed, as the controller has observed it."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from controlplane.fleet.core.stack_rows import Observed, PoolEntry
from controlplane.incidents.components.core.alert import Kind, key_of

POLICIES = "policies"
"""The component that says that policies are followed at all."""
PREFIX = "policy:"
KINDS: Mapping[str, Kind] = {
    kind.removeprefix("policy_"): kind for kind in get_args(Kind) if kind == "cluster" or kind.startswith("policy_")
}
"""The kind of alert of each kind of fault; `policy` for the others."""


def faults(components: Mapping[str, Observed], pools: Sequence[PoolEntry], operated_by: str) -> list[dict[str, Any]]:
    """Of each the fields of its alert. The component is `policy:KIND:SUBJECT`, where the subject is a pool, a model, a cluster or a policy.
    Without the gateway nobody says what traffic there is: its own incident says so, once for all pools.
    """
    return [
        _fault(name, observed, pools, operated_by)
        for name, observed in sorted(components.items())
        if name.startswith(PREFIX)
    ]


def _fault(component: str, observed: Observed, pools: Sequence[PoolEntry], operated_by: str) -> dict[str, Any]:
    _, kind, subject = (*component.split(":", 2), "", "")[:3]
    pool = next((entry for entry in pools if entry.name == subject), None)
    of_model = next((entry for entry in pools if entry.model == subject), None)
    served = pool or of_model
    what, scope = {"cluster": "cluster ", "snapshot": "cluster ", "gateway": "gateway "}.get(kind, ""), dict[str, str]()
    if pool is not None:
        what, scope = "pool ", scope_of(pool)
    elif of_model is not None:
        what, scope = "model ", {"model": subject}
    return {
        "component": component,
        "name": f"{what}{subject}",
        "kind": KINDS.get(kind, "policy"),
        "severity": "page" if observed.figures.get("page", 1.0) else "ticket",
        "owner": served.owner if served is not None else operated_by,
        "scope": scope,
        "explained_by": (key_of("gateway"),) if kind == "metrics" else (),
    }


def scope_of(pool: PoolEntry) -> dict[str, str]:
    return {"model": pool.model, "variant": pool.variant, "pool": pool.name, "region": pool.region}
