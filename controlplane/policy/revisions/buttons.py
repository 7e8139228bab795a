"""The buttons of a revision, in the admin and on its policy's page, and what comes of pressing one."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest

from controlplane.accounts import rights
from controlplane.accounts.core.actions import CHANGE_POLICIES
from controlplane.core.documents import lifecycle
from controlplane.core.documents.lifecycle import Button, Step
from controlplane.planning.jobs import JobRefusedError
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import previews, steps

ROLL_BACK = "roll-back"
LEAVES = "It stays in force until another person has approved its retirement."


def buttons_of(request: HttpRequest, revision: PolicyRevision) -> list[Button]:
    def whom(step: Step) -> str:
        return rights.why_not(request.user, steps.action_for(step, revision), revision)

    shown = lifecycle.buttons(steps.facts_of(revision), request.user.get_username(), whom)
    earlier = _comes_back(revision)
    if earlier is not None and rights.may(request.user, CHANGE_POLICIES, revision):
        means = "Its text is in force at once, as a new revision"
        shown.append(Button(ROLL_BACK, f"Roll back to revision {earlier.number}", means))
    return shown


def press(request: HttpRequest, revision: PolicyRevision, step: str) -> PolicyRevision:
    """Take a step, if this reader may, and say what came of it. The revision to look at next. Raises PermissionDenied."""
    who, note = request.user.get_username(), request.POST.get("note", "")
    try:
        if step == ROLL_BACK:
            number = revision.number if revision.state == PolicyRevision.State.RETIRED else None
            guard = rights.guard(request.user, CHANGE_POLICIES)
            revision = steps.roll_back(revision.name, who, number, note, guard)
            said = f"Revision {revision.number} is in force within a second, with the text of revision {revision.restores}."
        elif step in lifecycle.STEPS:
            rights.require(request.user, steps.action_for(step, revision), revision)
            if step == "preview":
                previews.start(revision, who)
            else:
                revision = steps.TAKE[step](revision, who, note)
            leaves = step == "retire" and revision.waits_for_retirement
            taken: Step = "retire" if revision.state == PolicyRevision.State.RETIRED else step
            said = LEAVES if leaves else lifecycle.RULES[taken].said
        else:
            raise Http404(f"{step[:40]!r} is no step of a revision")
    except (ValidationError, JobRefusedError) as error:
        why = "; ".join(error.messages) if isinstance(error, ValidationError) else str(error)
        messages.error(request, f"Not done: {why}")
    else:
        messages.success(request, said)
    return revision


def _comes_back(revision: PolicyRevision) -> PolicyRevision | None:
    """What a roll-back brings back: this one, where it was in force; what was in force before it, where it is."""
    if revision.state == PolicyRevision.State.ACTIVE:
        return steps.roll_back_to(revision.name)
    active = PolicyRevision.objects.filter(name=revision.name, state=PolicyRevision.State.ACTIVE)
    was = revision.state == PolicyRevision.State.RETIRED and revision.activated_at is not None
    return revision if was and active.exists() else None
