"""Buttons on a policy's page: each takes its revision a step further, or rolls back."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.core.actions import CHANGE_POLICIES
from controlplane.dashboard.core.screen import link_query
from controlplane.planning.jobs import JobRefusedError
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import previews, steps
from controlplane.policy.revisions.buttons import button, is_confirmed
from controlplane.policy.revisions.buttons import said as said_of
from controlplane.policy.revisions.core import lifecycle

ROLL_BACK = "roll-back"


def buttons(request: HttpRequest, revision: PolicyRevision) -> list[dict[str, Any]]:
    """The steps that could be taken with the revision, and why this reader cannot take one."""
    facts = steps.revision_facts(revision)
    shown = []
    for step in lifecycle.STEPS:
        action = steps.action_for(step)
        whom = "" if rights.may(request.user, action, revision) else f"Ask {rights.who_may(action, revision)}"
        reason = lifecycle.why_not(step, facts, request.user.get_username())
        waiting = (
            ("activate", "approve") if revision.state in lifecycle.OPEN else ("approve",) if facts.retirement_by else ()
        )
        if reason and step not in waiting:
            continue
        words, means = button(step, facts)
        refused, confirms = bool(reason or whom), is_confirmed(step, facts)
        shown.append(
            {"step": step, "words": words, "means": reason or whom or means, "refused": refused, "confirms": confirms}
        )
    if revision.state == PolicyRevision.State.ACTIVE and rights.may(request.user, CHANGE_POLICIES, revision):
        earlier = steps.roll_back_to(revision.name)
        if earlier is not None:
            means = f"The text of revision {earlier.number} comes into force again, as a new revision"
            shown.append(
                {
                    "step": ROLL_BACK,
                    "words": f"Roll back to {earlier.number}",
                    "means": means,
                    "refused": False,
                    "confirms": True,
                }
            )
    return shown


@require_POST
def take_step(request: HttpRequest, name: str, number: int, step: str) -> HttpResponse:
    """Take a step with a revision, if this reader may, and say what came of it."""
    revision = get_object_or_404(PolicyRevision, name=name, number=number)
    who = request.user.get_username()
    try:
        if step == ROLL_BACK:
            revision = steps.roll_back(name, who, guard=rights.guard(request.user, CHANGE_POLICIES))
            said = f"Revision {revision.number} is in force from the next tick on, with the text of revision {revision.restores}."
        elif step in lifecycle.STEPS:
            rights.require(request.user, steps.action_for(step), revision)
            if step == "preview":
                previews.start(revision, who)
            else:
                revision = steps.TAKE[step](revision, who, "")
            said = said_of(step, revision)
        else:
            raise Http404(f"{step[:40]!r} is no step of a revision")
    except (ValidationError, JobRefusedError) as error:
        said = "; ".join(error.messages) if isinstance(error, ValidationError) else str(error)
        messages.error(request, f"Not done: {said}")
    else:
        messages.success(request, said)
    path = reverse("policy", args=[name])
    return HttpResponseRedirect(f"{path}?{link_query([('revision', str(revision.number))])}")
