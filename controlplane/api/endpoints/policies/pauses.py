"""`pauses` and `overrides`: lists, makes and ends them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from controlplane.accounts import rights
from controlplane.accounts.core.actions import APPROVE_POLICIES, CHANGE_POLICIES, REJECT_POLICIES
from controlplane.api.formats import Given, Moment, Name, Number, Text
from controlplane.api.listing import ListParameters, newest_first
from controlplane.policy.models import Override, Pause
from controlplane.policy.models.people import MAX_REPLICAS
from controlplane.policy.revisions import pausing

router = Router(tags=["policies"])
Replicas = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
LadderStep = Annotated[int, Field(ge=0, le=100)]


class PauseParameters(ListParameters):
    over: bool = Field(False, description="Include those that are over")


class PauseIn(Given):
    scope: Literal["all", "policy", "model", "pool"]
    target: Name | None = Field(None, description="The name of the policy, model or pool; left out for all")
    starts_at: Moment | None = Field(None, description="Now, if left out")
    ends_at: Moment
    reason: Text = Field(max_length=500)


class OverrideIn(Given):
    pool: Name | None = None
    replicas: Replicas | None = None
    model: Name | None = None
    tier: Name | None = Field(None, description="Left out: all tiers of the model's ladder")
    step: LadderStep | None = Field(None, description="Of the model's ladder; 0 is no degradation")
    starts_at: Moment | None = Field(None, description="Now, if left out")
    ends_at: Moment
    reason: Text = Field(max_length=500)


class WithAnEndOut(Schema):
    number: int = Field(validation_alias="pk")
    author: str
    reason: str
    created_at: datetime
    starts_at: datetime
    ends_at: datetime
    ended_by: str = Field(description="Who ended it early; empty: nobody")
    ended_at: datetime | None


class PauseOut(WithAnEndOut):
    scope: str
    target: str


class OverrideOut(WithAnEndOut):
    pool: str
    replicas: int | None
    model: str
    tier: str
    step: int | None
    waits: bool = Field(description="It does not count until another person approves it")
    approved_by: str


class PausesOut(Schema):
    """The newest first."""

    pauses: list[PauseOut]
    next_before: int | None


class OverridesOut(Schema):
    """The newest first."""

    overrides: list[OverrideOut]
    next_before: int | None


@router.get("/pauses", response=PausesOut, summary="Pauses in force or to come, the newest first; all with `over=true`")
def all_pauses(request: HttpRequest, parameters: Query[PauseParameters]) -> dict[str, Any]:
    return newest_first(pausing.in_force(Pause, over=parameters.over), parameters, "pauses")


@router.post("/pauses", response={201: PauseOut}, summary="Pause policies: they decide and record, and do not act")
def new_pause(request: HttpRequest, given: PauseIn) -> Status[Pause]:
    rights.require_anywhere(request.user, CHANGE_POLICIES)
    if given.scope != "all" and given.target is None:
        raise ValidationError({"target": f"target is missing: name the {given.scope} that is paused"})
    what = {**given.model_dump(), "target": given.target or ""}
    guard = rights.guard(request.user, CHANGE_POLICIES)
    made = pausing.pause(**what, who=request.user.get_username(), guard=guard)
    return Status(201, made)


@router.get("/pauses/{int:number}", response=PauseOut, summary="One pause")
def one_pause(request: HttpRequest, number: Number) -> Pause:
    return get_object_or_404(Pause, pk=number)


@router.delete("/pauses/{int:number}", response=PauseOut, summary="End it now; the record stays")
def end_pause(request: HttpRequest, number: Number) -> Pause:
    pause = rights.row_for(request.user, CHANGE_POLICIES, Pause, pk=number)
    pausing.end(pause, request.user.get_username())
    return pause


@router.get(
    "/overrides", response=OverridesOut, summary="Overrides in force or to come, the newest first; all with `over=true`"
)
def all_overrides(request: HttpRequest, parameters: Query[PauseParameters]) -> dict[str, Any]:
    return newest_first(pausing.in_force(Override, over=parameters.over), parameters, "overrides")


@router.post(
    "/overrides", response={201: OverrideOut}, summary="Override a pool's replicas, or a step of a model's ladder"
)
def new_override(request: HttpRequest, given: OverrideIn) -> Status[Override]:
    rights.require_anywhere(request.user, CHANGE_POLICIES)
    texts = {name: getattr(given, name) or "" for name in ("pool", "model", "tier")}
    guard = rights.guard(request.user, CHANGE_POLICIES)
    what = {**given.model_dump(), **texts, "at_once": rights.is_administrator(request.user)}
    made = pausing.override(**what, who=request.user.get_username(), guard=guard)
    return Status(201, made)


@router.get("/overrides/{int:number}", response=OverrideOut, summary="One override")
def one_override(request: HttpRequest, number: Number) -> Override:
    return get_object_or_404(Override, pk=number)


@router.post(
    "/overrides/{int:number}/approve", response=OverrideOut, summary="Let an override count that another person made"
)
def approve_override(request: HttpRequest, number: Number) -> Override:
    """409 where it does not wait."""
    override = rights.row_for(request.user, APPROVE_POLICIES, Override, pk=number)
    return pausing.approve(override, request.user.get_username())


@router.delete("/overrides/{int:number}", response=OverrideOut, summary="End it now; the record stays")
def end_override(request: HttpRequest, number: Number) -> Override:
    """One that waits is rejected by who may approve it, or withdrawn."""
    override = rights.row_for(request.user, REJECT_POLICIES, Override, pk=number)
    pausing.end(override, request.user.get_username(), rights.guard(request.user, CHANGE_POLICIES))
    return override
