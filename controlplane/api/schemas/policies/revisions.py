"""Shapes of policies and their revisions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema

from controlplane.api.formats import Count, Given, Words
from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.revisions.core import lifecycle
from controlplane.policy.revisions.core.lifecycle import RevisionStep
from controlplane.policy.revisions.read import plain_of

Kind = Literal["Scaling", "Routing", "Degradation", "Canary"]
StepName = Literal["shadow", "approve", "activate", "retire"]
MAX_TEXT_CHARS = 200_000


class PolicyParameters(Schema):
    kind: Kind | None = None
    in_force: bool | None = Field(None, description="Only policies with a revision in force, or only those without one")


class ProposalIn(Given):
    text: Words = Field(min_length=1, max_length=MAX_TEXT_CHARS, description="YAML or JSON: one policy")
    note: Words = Field("", max_length=500, description="Why it was written")


class StepIn(Given):
    note: Words = Field("", max_length=500)


class RollBackIn(Given):
    number: Count | None = Field(None, description="A revision that was in force; else what was in force before")
    note: Words = Field("", max_length=500)


class StepTakenOut(Schema):
    at: datetime
    who: str
    what: str = Field(description="proposed, previewed, shadow, shadow_ended, approved, activated or retired")
    note: str


class PolicyRevisionOut(Schema):
    policy: str = Field(validation_alias="name")
    kind: str
    number: int
    state: str = Field(description="draft, previewed, shadow, approved, active or retired")
    team: str = Field(description="That owns the policy; empty: none")
    author: str
    source: str = Field(description="Where it was written: admin, api, file, bootstrap, canary or roll_back")
    label: str = Field(description="The owner label of the files it is applied from; empty: none")
    note: str
    restores: int | None = Field(description="The revision whose text a roll-back brought into force again")
    text_sha256: str
    created_at: datetime
    previewed_at: datetime | None
    shadow_since: datetime | None
    approved_by: str
    approved_at: datetime | None
    activated_by: str
    activated_at: datetime | None
    retired_by: str
    retired_at: datetime | None


class PolicyRevisionDetailOut(PolicyRevisionOut):
    text: str
    document: dict[str, Any] = Field(description="The text as JSON")
    preview: dict[str, Any] = Field(description="What the preview measured; empty before")
    needs_approval: bool = Field(description="Whether another person than the author has to approve it")
    steps: list[RevisionStep] = Field(description="What the caller could do with it now, rights left aside")
    events: list[StepTakenOut] = Field(description="Who took which step, the newest first")

    @staticmethod
    def resolve_document(row: PolicyRevision) -> dict[str, Any]:
        return plain_of(row)

    @staticmethod
    def resolve_needs_approval(row: PolicyRevision) -> bool:
        return steps.revision_facts(row).needs_approval

    @staticmethod
    def resolve_steps(row: PolicyRevision, context: dict[str, Any]) -> Sequence[RevisionStep]:
        return lifecycle.possible(steps.revision_facts(row), context["request"].user.get_username())


class PolicyOut(Schema):
    name: str
    kind: str
    team: str
    target: str = Field(
        description="What it is for: pool:NAME, gateway:NAME or model:NAME; empty where its text cannot be read"
    )
    active: int | None = Field(description="The number of the revision in force")
    shadow: int | None = Field(description="The number of the revision in shadow")
    newest: int
    newest_state: str


class PoliciesOut(Schema):
    policies: list[PolicyOut]


class PolicyDetailOut(PolicyOut):
    revisions: list[PolicyRevisionOut] = Field(description="The newest first, at most 200")
    rolls_back_to: int | None = Field(description="What a roll-back would bring back")


class PreviewJobOut(Schema):
    job: int = Field(description="Its progress: /api/v1/planning/jobs/NUMBER")
    state: str
