"""Previews a proposed change of the fleet: what it would have changed for the requests that were recorded last."""

import time
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models.signals import post_save
from django.utils import timezone

from controlplane.accounts.rights import Guard
from controlplane.fleet.files import proposals
from controlplane.fleet.models import FleetProposal, StepTaken, record_step
from controlplane.planning import jobs
from controlplane.planning.models import PlanJob
from controlplane.policy.preview.common import NS_PER_S, CannotPreviewError
from controlplane.policy.preview.core.gateways import Gateways
from controlplane.policy.preview.core.proposal_effects import Judged, compared, not_replayed
from controlplane.slo.core.count_plan import CountPlan
from controlplane.slo.core.sli import Availability, Cost, Histogram
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers

KIND = "fleet_preview"
REPLAYED_S, MAX_REQUESTS, MAX_OBJECTIVES = 86_400, 20_000, 100


def connect() -> None:
    """Each proposal is previewed by itself, once it is made."""
    post_save.connect(_made, sender=FleetProposal, dispatch_uid="preview of a proposal")


def _made(sender: type[FleetProposal], instance: FleetProposal, created: bool, **_: Any) -> None:
    if created:
        start(instance, instance.author)


def take(step: proposals.Step, number: int, who: str, guard: Guard, note: str = "") -> FleetProposal:
    """As `proposals.take`, which checks that a preview may be started; then it is."""
    proposal = proposals.take(step, number, who, guard, note)
    if step == "preview":
        start(proposal, who)
    return proposal


def start(proposal: FleetProposal, who: str) -> PlanJob:
    """Queue its preview, or return the one that is open."""
    return jobs.start(KIND, {"proposal": proposal.pk}, author=who)


def newest_job(proposal: FleetProposal) -> PlanJob | None:
    return PlanJob.objects.filter(kind=KIND, request={"proposal": proposal.pk}).order_by("-pk").first()


@jobs.kind(KIND)
def run(request: Mapping[str, Any], progress: jobs.Progress) -> dict[str, Any]:
    """Raises FleetProposal.DoesNotExist, CannotPreviewError, and the errors of the store: then there is no preview."""
    proposal = FleetProposal.objects.get(pk=request["proposal"])
    progress.report(0, 100, "replays recorded requests")
    result = preview(proposal)
    with transaction.atomic():
        proposal = FleetProposal.objects.select_for_update().get(pk=proposal.pk)
        if proposal.is_open:
            proposal.preview, proposal.previewed_at = result, timezone.now()
            proposal.save(update_fields=["preview", "previewed_at"])
            record_step(proposal, StepTaken.What.PREVIEWED, progress.job.author)
    return {"note": f"replayed {result['requests']} requests"}


def preview(proposal: FleetProposal) -> dict[str, Any]:
    """What it would have changed, as a document; with no request in it where none was recorded. Raises as `run` does."""
    seen = proposals.outlook(proposal)
    if seen.applied.obeyed is None:
        raise CannotPreviewError(
            "it cannot be applied as the fleet is now: correct what is listed, and propose it again"
        )
    to_ns = time.time_ns()
    window = Window(to_ns - REPLAYED_S * NS_PER_S, to_ns)
    plan, objectives, left_out = _judged()
    before, after = (Gateways(document, to_ns // 1_000_000) for document in seen.applied.obeyed)
    rows, count = answers.store().replayed.newest(window, list(before.models), plan.cuts, MAX_REQUESTS)
    figures = compared(before, after, rows, objectives)
    recorded = {row.pool for row in rows}
    return {
        "plan": seen.digest,
        "requests": len(rows),
        "recorded": count,
        "from_ms": rows[0].at_ms if rows else None,
        "to_ms": rows[-1].at_ms if rows else None,
        **figures,
        "never_served": [each["pool"] for each in figures["pools"] if each["after"] and each["pool"] not in recorded],
        "not_replayed": not_replayed(*seen.applied.obeyed),
        "unjudged_objectives": left_out,
    }


def _judged() -> tuple[CountPlan, list[Judged], list[str]]:
    """Objectives that requests are judged by one by one, and the names of the others."""
    rows = [each.to_objective() for each in StoredObjective.objects.filter(enabled=True).order_by("slug")]
    chosen = [each for each in rows if not isinstance(each.indicator, Histogram | Cost)][:MAX_OBJECTIVES]
    plan = CountPlan(chosen)
    judged = [
        Judged(
            each.objective.slug,
            each.objective.target,
            each.objective.scope,
            each.cut,
            each.place,
            isinstance(each.objective.indicator, Availability),
        )
        for each in plan.tasks
    ]
    known = {each.slug for each in judged}
    return plan, judged, [each.slug for each in rows if each.slug not in known]
