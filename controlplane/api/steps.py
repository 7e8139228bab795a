"""What REST answers of a change that somebody proposed, of a policy or of the fleet: how far it has come, and the next steps."""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

from django.http import HttpRequest
from ninja import Field, Schema, Status

from controlplane.api.formats import Given, Words
from controlplane.core.documents.lifecycle import Facts, State, Step, possible
from controlplane.fleet.files import proposals


class ProposedOut(Schema):
    number: int
    state: State = Field(description="active: in force; retired: over, or withdrawn")
    author: str
    note: str
    restores: int | None = Field(description="The revision that it brings back")
    previewed_at: datetime | None
    approved_by: str
    approved_at: datetime | None


class StepIn(Given):
    note: Words = Field("", max_length=500)


NO_NOTE = StepIn(note="")


class StepTakenOut(Schema):
    at: datetime
    who: str
    what: str = Field(
        description="proposed, previewed, shadow, shadow_ended, approved, activated, retirement (proposed), "
        "retirement_withdrawn, retirement_rejected or retired"
    )
    note: str


class StepsOut(ProposedOut):
    approval: list[str] = Field(description="Teams that want another person's approval")
    steps: list[Step] = Field(description="What the caller could do with it now, rights left aside")
    events: list[StepTakenOut] = Field(description="Who took which step, the newest first")


def stepped(row: Any, number: int, facts: Facts, who: str) -> dict[str, Any]:
    """The fields of `StepsOut`. `row`: as it is stored."""
    stored = {name: getattr(row, name) for name in ProposedOut.model_fields if name not in ("number", "state")}
    steps = possible(facts, who)
    events = list(row.events.all())
    return {
        **stored,
        "number": number,
        "state": facts.state,
        "approval": facts.wanting,
        "steps": steps,
        "events": events,
    }


class DraftedOut(Schema):
    proposal: int = Field(
        description="The number of the proposal that waits for another person's approval: /api/v1/fleet/proposals"
    )


def drafted(operation: Callable[..., Any]) -> Callable[..., Any]:
    """What the operation changes is in force, or is proposed where a team whose it is wants approvals: then it answers 202."""

    @wraps(operation)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with proposals.drafted(request.user.get_username()) as draft:
            answer = operation(request, *args, **kwargs)
        return answer if draft.proposal is None else Status(202, {"proposal": draft.proposal.pk})

    return answered
