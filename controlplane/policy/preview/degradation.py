"""Previews a degradation policy: which steps would have been entered when, on what was recorded, and what they would have changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.policy.core.memory import LadderMemory
from controlplane.policy.core.overlay.ladder import tier_step
from controlplane.policy.core.spec import Degradation, DegradationSpec
from controlplane.policy.models import PolicyRevision
from controlplane.policy.preview import recorded_decisions
from controlplane.policy.preview.common import CannotPreviewError, Report, followed, in_force, window
from controlplane.policy.preview.core.walk import Walk, shares_of_minutes
from controlplane.telemetry.core.replayed_rows import TierMinute
from controlplane.telemetry.query import answers

NOTE = (
    "Burn rates, delays and saturation are those that were recorded with each decision, a minute apart or less: a shorter peak "
    "between two is not seen. They are what they were under the policies of that time. What these steps would have eased is not in "
    "them: a step may be left sooner than here. Pauses and overrides are left out. How else a smaller pool or variant answers cannot "
    "be measured here."
)


def preview_degradation(revision: PolicyRevision, policy: Degradation, report: Report) -> dict[str, Any]:
    """Raises CannotPreviewError, and the errors of the store."""
    current = in_force(revision, policy)
    sides = {"revision": (revision, policy)} | ({"current": current} if current else {})
    walks = recorded_decisions.replayed(
        {side: followed(*each) for side, each in sides.items()},
        lambda share: report(0.8 * share, "replays recorded decisions"),
    )
    known_s = walks["revision"].known_s
    if not known_s:
        raise CannotPreviewError(
            f"no decision about model {policy.spec.model!r} was recorded in the last 14 days: put the revision in shadow, and preview it "
            "once there are some"
        )
    report(0.8, "counts the requests of that time")
    specs = {side: each[1].spec for side, each in sides.items()}
    caps = sorted({step.max_output_tokens for spec in specs.values() for step in spec.steps if step.max_output_tokens})
    tiers = sorted({tier for spec in specs.values() for tier in spec.tiers})
    minutes = answers.store().replayed.tier_minutes(window(), policy.spec.model, tiers, caps)
    return {
        "kind": "Degradation",
        "model": policy.spec.model,
        **{side: figures(spec, walks[side], minutes, caps) for side, spec in specs.items()},
        "current_revision": current[0].number if current else None,
        "days": round(known_s / 86_400, 2),
        "requests": sum(each.requests for each in minutes),
        "note": NOTE,
    }


def figures(spec: DegradationSpec, walk: Walk, minutes: Sequence[TierMinute], caps: Sequence[int]) -> dict[str, Any]:
    """How often and how long each tier would have been on each step, and how many of its requests that would have changed."""
    shares = shares_of_minutes(walk.spells)
    rows = []
    for tier in spec.tiers:
        for level, step in enumerate(spec.steps, start=1):
            touched, changed = _touched(spec, tier, level, shares.get((tier, level), {}), minutes, caps)
            rows.append(
                {
                    "tier": tier,
                    "step": level,
                    "name": step.name,
                    "entered": walk.entered(tier, level),
                    "seconds": walk.seconds(tier, level),
                    "share_of_time": walk.seconds(tier, level) / walk.known_s if walk.known_s else None,
                    "requests": round(touched),
                    "changed": round(changed),
                    "changed_share": changed / touched if touched else None,
                    "entered_cost": step.cost.requests_share,
                }
            )
    return {
        "steps": rows,
        "changes": sum(row["entered"] for row in rows),
        "degraded_s": sum(row["seconds"] for row in rows),
        "requests": sum(row["requests"] for row in rows),
        "changed": sum(row["changed"] for row in rows),
    }


def _touched(
    spec: DegradationSpec,
    tier: str,
    level: int,
    shares: Mapping[int, float],
    minutes: Sequence[TierMinute],
    caps: Sequence[int],
) -> tuple[float, float]:
    """The tier's requests in these shares of minutes, and those of them that the step would have changed or refused."""
    does = tier_step(spec, tier, LadderMemory(level), "")
    touched = changed = 0.0
    for each in minutes:
        share = shares.get(each.minute, 0.0) if each.tier == tier else 0.0
        if not share:
            continue
        touched += share * each.requests
        if does.shed_retry_after_s is not None:
            changed += share * each.requests
        elif does.cached_only or does.pool or does.variant:
            changed += share * each.own
        elif does.max_output_tokens:
            changed += share * each.longer[caps.index(does.max_output_tokens)]
    return touched, changed
