"""Shapes of pauses and overrides."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Field, Schema

from controlplane.api.formats import Given, Moment, Name, Text
from controlplane.api.listing import ListParameters
from controlplane.policy.models.people import MAX_REPLICAS

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


class PausesOut(Schema):
    """The newest first."""

    pauses: list[PauseOut]
    next_before: int | None


class OverridesOut(Schema):
    """The newest first."""

    overrides: list[OverrideOut]
    next_before: int | None
