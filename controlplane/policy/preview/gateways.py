"""Previews a policy of the API tier: the count through the day, on what was recorded, beside what is in force and what there was."""

from typing import Any

import numpy as np
from msgspec import structs

from controlplane.planning import demand
from controlplane.policy.core.observation import PoolFacts
from controlplane.policy.core.spec import InForce, Scaling
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview import recorded
from controlplane.policy.preview.common import DAY_S, PREVIEWED_S, CannotPreviewError, Report, followed, in_force
from controlplane.policy.preview.core.tier import TierWalk, between

MAX_MS = 300_000
Seen = list[tuple[int, PoolFacts]]
RECORDED = (
    "Rates and CPU are those that were recorded with each decision, a minute apart or less: a shorter peak between two is not seen. "
    "CPU is taken to be the same work, shared by another count."
)
COUNTED = (
    "No decision about this workload was recorded: rates are those of all models, in steps of five minutes, and `cpu_use` is left "
    "out, because how busy gateways were is not known."
)
NOTE = (
    " Replicas are taken to start within seconds. Latency at another count cannot be measured here, nor what other owners of the count "
    "would do."
)


def preview_gateways(revision: PolicyRevision, policy: Scaling, report: Report) -> dict[str, Any]:
    """Raises CannotPreviewError, and the errors of the store."""
    current = in_force(revision, policy)
    sides = {"revision": followed(revision, policy)} | ({"current": followed(*current)} if current else {})
    target = policy.spec.target
    seen = _seen(target, report)
    was_recorded = bool(seen)
    if not seen:
        if policy.spec.reactive.replica_rps is None:
            raise CannotPreviewError(
                f"no decision about {target!r} was recorded in the last 14 days, and without spec.reactive.replica_rps its load says "
                "nothing: put the revision in shadow, and preview it once there are some"
            )
        report(0.5, "reads recorded demand")
        seen = _counted(target)
        sides = {side: _without_cpu(each) for side, each in sides.items()}
    times = [at_ms for at_ms, _ in seen]
    lasted = between(times, MAX_MS)
    figures = {}
    for side, each in sides.items():
        assert isinstance(each.policy, Scaling)
        spec = each.policy.spec
        walk = TierWalk(each, spec, min(max(spec.min, seen[0][1].wanted or spec.min), spec.max))
        for (now_ms, facts), for_ms in zip(seen, lasted, strict=True):
            walk.see(now_ms, facts, for_ms)
        figures[side] = walk.document()
    if was_recorded:
        figures["recorded"] = _as_it_was(sides["revision"], seen, lasted)
    return {
        "kind": "Scaling",
        "target": target,
        **figures,
        "current_revision": current[0].number if current else None,
        "days": round(sum(lasted) / 1_000 / DAY_S, 2),
        "note": (RECORDED if was_recorded else COUNTED) + NOTE,
    }


def _seen(target: str, report: Report) -> Seen:
    seen: dict[int, PoolFacts] = {}
    for record, _ in recorded.records(lambda share: report(0.8 * share, "reads recorded decisions")):
        facts = record.observation.pools.get(target)
        if facts is not None and facts.arrived_rps is not None:
            seen[record.observation.now_ms] = facts
    return sorted(seen.items())


def _counted(target: str) -> Seen:
    """The requests of all models together, where they were measured. Raises CannotPreviewError."""
    history = demand.history(history_s=PREVIEWED_S)
    if not history:
        raise CannotPreviewError("no request was recorded in the last 14 days: send some first")
    whole = history[0].requests
    table = np.array([each.requests.values for each in history])
    begun = np.logical_or.accumulate(np.isfinite(table), axis=1)
    # Without one region's requests the sum is not known.
    rates, steps = (
        np.nansum(table, axis=0),
        np.flatnonzero(begun.any(axis=0) & (np.isfinite(table) | ~begun).all(axis=0)),
    )
    return [
        (
            (whole.start_s + int(step) * whole.step_s) * 1_000,
            PoolFacts(
                target, arrived_rps=float(rates[step]), waiting=0.0, in_flight=0.0, traffic_age_ms=0, servers_age_ms=0
            ),
        )
        for step in steps
    ]


def _without_cpu(policy: InForce) -> InForce:
    document = policy.policy
    assert isinstance(document, Scaling)
    reactive = structs.replace(document.spec.reactive, cpu_use=None)
    spec = structs.replace(document.spec, reactive=reactive)
    return structs.replace(policy, policy=structs.replace(document, spec=spec))


def _as_it_was(policy: InForce, seen: Seen, lasted: list[int]) -> dict[str, Any]:
    assert isinstance(policy.policy, Scaling)
    walk = TierWalk(policy, policy.policy.spec, 0)
    before = None
    for (now_ms, facts), for_ms in zip(seen, lasted, strict=True):
        if facts.wanted is None:
            continue
        walk.changes += before not in (None, facts.wanted)
        before = facts.wanted
        walk.hold(now_ms, facts.wanted, for_ms)
    return walk.document()
