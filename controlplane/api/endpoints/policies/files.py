"""Policies as code over REST: checks files, and applies them."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import CHANGE_POLICIES, VIEW
from controlplane.api.endpoints.openslo import BODY, FilesAppliedOut, FileStepOut, LintProblemOut, files
from controlplane.api.formats import Words
from controlplane.core.documents.plan import Applied
from controlplane.policy.revisions.apply import Goal, apply, check

router = Router(tags=["policies as code"])


class CheckedOut(Schema):
    policies: int
    problems: list[LintProblemOut]


class PolicyStepOut(FileStepOut):
    action: str = Field(
        ...,
        description="create, change, continue (brings on a stored revision), waits (for another person's approval), "
        "unchanged, retire, propose (its retirement, to another person) or conflict",
    )


class PoliciesAppliedOut(FilesAppliedOut):
    steps: list[PolicyStepOut]


class PolicyApplyParameters(Schema):
    owner_label: Words = Field("api", max_length=100, description="Marks what these files own")
    goal: Goal = Field("active", description="How far new revisions are brought at once")
    note: Words = Field("", max_length=500, description="Why they were written")
    prune: bool = Field(False, description="Retire policies that have the label and are in no file")
    adopt: bool = Field(False, description="Take over what was written by hand or elsewhere")
    again: bool = Field(False, description="Bring back a text that was rolled back")
    dry_run: bool = False


@router.post(
    "/policy-files/check", response=CheckedOut, summary="What to correct in files of policies", openapi_extra=BODY
)
def check_files(request: HttpRequest) -> dict[str, Any]:
    rights.require(request.user, VIEW)
    policies, problems = check(files(request))
    return {"policies": len(policies), "problems": problems}


@router.post(
    "/policy-files/apply",
    response={200: PoliciesAppliedOut, 409: PoliciesAppliedOut},
    summary="Make policies equal to files, all or none",
    openapi_extra=BODY,
)
def apply_files(request: HttpRequest, parameters: Query[PolicyApplyParameters]) -> Status[Applied[Any]]:
    """Idempotent. 409 where a file has problems or a policy belongs to another owner; nothing is changed then."""
    rights.require_anywhere(request.user, CHANGE_POLICIES)
    guard, given = rights.guard(request.user, CHANGE_POLICIES), parameters.dict()
    label = given.pop("owner_label")
    result = apply(files(request), label=label, who=request.user.get_username(), source="api", guard=guard, **given)
    return Status(200 if result.possible else 409, result)
