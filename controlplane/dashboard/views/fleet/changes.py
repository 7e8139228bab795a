"""Every change of the fleet: the list of its revisions, one of them, and the way back to it."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.core.documents.lifecycle import RULES, Button, Facts, Step, buttons
from controlplane.core.documents.report import WORDS, change_text
from controlplane.core.formatting import shortened
from controlplane.core.listing import newest_first
from controlplane.dashboard.core.proposal_preview import NOTE, tables_of, unknown_of
from controlplane.dashboard.views.common import list_filters, list_links, page
from controlplane.fleet.files import proposals
from controlplane.fleet.files.differences import differences
from controlplane.fleet.files.kinds import guard as kind_guard
from controlplane.fleet.files.revisions import drifts
from controlplane.fleet.models import FleetProposal, FleetRevision, Team
from controlplane.policy.preview import proposal as fleet_previews

PAGE_ROWS = 50
FILTERS = ("author", "via")
MAX_WORDS = 300
MAX_NOTE = 500


@page
@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """The newest first. `author` and `via`, each repeatable, choose some; `before` is where a page begins."""
    wanted, before = list_filters(request, FILTERS)
    rows = FleetRevision.objects.prefetch_related("changes")
    listing = newest_first(rows, {name: name for name in FILTERS}, wanted, before, PAGE_ROWS)
    context = {
        "rows": [{"revision": row, "words": _words(row)} for row in listing.rows],
        "drifts": [{"change": row, "words": differences([row])[0].words} for row in drifts()],
        "proposals": FleetProposal.objects.filter(ended_at=None),
        **list_links(wanted, "via", (), before, listing.next_before),
    }
    return render(request, "dashboard/fleet/changes.html", context)


def _words(revision: FleetRevision) -> str:
    return shortened(". ".join(each.words for each in differences(revision.changes.all())), MAX_WORDS)


@page
@require_safe
def change(request: HttpRequest, number: int) -> HttpResponse:
    revision = get_object_or_404(FleetRevision, number=number)
    newest = FleetRevision.objects.order_by("-number").values_list("number", flat=True).first()
    context = {
        "revision": revision,
        "differences": [
            {"of": each, "fields": [change_text(field) for field in each.fields]}
            for each in differences(revision.changes.all())
        ],
        "is_newest": number == newest,
        "teams": Team.objects.order_by("name"),
        "earlier": FleetRevision.objects.filter(number__lt=number).order_by("-number").first(),
        "later": FleetRevision.objects.filter(number__gt=number).order_by("number").first(),
    }
    return render(request, "dashboard/fleet/change.html", context)


@require_POST
def bring_back(request: HttpRequest, number: int) -> HttpResponse:
    """Makes a proposal, which shows what would change. `team`: of this team alone."""
    rights.require_anywhere(request.user, EDIT_FLEET)
    get_object_or_404(FleetRevision, number=number)
    note, team = request.POST.get("note", "")[:MAX_NOTE], request.POST.get("team", "")
    try:
        made = proposals.bring_back(number, who=request.user.get_username(), note=note, team=team)
    except ValidationError as error:
        messages.error(request, f"Not done: {'; '.join(error.messages)}")
        return HttpResponseRedirect(reverse("fleet-change", args=[number]))
    return HttpResponseRedirect(reverse("fleet-proposal", args=[made.pk]))


@page
@require_safe
def proposal(request: HttpRequest, number: int) -> HttpResponse:
    row = get_object_or_404(FleetProposal.objects.select_related("revision"), pk=number)
    seen = proposals.outlook(row) if row.is_open else None
    facts = proposals.facts_of(row, seen)
    job, preview = fleet_previews.newest_job(row), row.preview
    context: dict[str, Any] = {"proposal": row, "seen": seen, "state": facts.state, "job": job, "preview": preview}
    if preview.get("requests"):
        context |= {"tables": tables_of(preview), "unknown": unknown_of(preview), "preview_note": NOTE}
    if seen is not None:
        steps = [step for step in seen.applied.steps if step.action != "unchanged"]
        context |= {
            "steps": [
                {"step": step, "sign": WORDS[step.action][0], "fields": [change_text(each) for each in step.changes]}
                for step in steps
            ],
            "problems": [each.message for each in seen.applied.problems],
            "buttons": _buttons(request, facts, seen),
            "steps_at": reverse("fleet-proposal-step", args=[number, "_"])[:-1],
            "is_stale": bool(preview) and preview["plan"] != seen.digest,
        }
    return render(request, "dashboard/fleet/proposal.html", context)


def _buttons(request: HttpRequest, facts: Facts, seen: proposals.Outlook) -> list[Button]:
    who = request.user.get_username()

    def whom(step: Step) -> str:
        own = step == "retire" and facts.author == who
        return "" if own else rights.why_not(request.user, proposals.STEPS[step], seen.owned)  # type: ignore[index]

    return buttons(facts, who, whom)


@require_POST
def take_proposal_step(request: HttpRequest, number: int, step: str) -> HttpResponse:
    if step not in proposals.STEPS:
        raise Http404(f"{step[:40]!r} is no step of a proposal")
    action = proposals.STEPS[step]  # type: ignore[index]
    rights.require_anywhere(request.user, action)
    get_object_or_404(FleetProposal, pk=number)
    try:
        guard = kind_guard(request.user, action)
        note = request.POST.get("note", "")
        fleet_previews.take(step, number, request.user.get_username(), guard, note)  # type: ignore[arg-type]
    except ValidationError as error:
        messages.error(request, f"Not done: {'; '.join(error.messages)}")
    else:
        messages.success(request, RULES[step].said)  # type: ignore[index]
    return HttpResponseRedirect(reverse("fleet-proposal", args=[number]))
