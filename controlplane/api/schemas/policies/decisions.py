"""Shapes of decisions."""

from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema
from pydantic import Json

from controlplane.api.formats import TIME, Instant, Name
from controlplane.api.listing import ListParameters


class DecisionParameters(ListParameters):
    from_: Instant = Field("now-1d", alias="from", description=TIME)
    to: Instant = Field("now", description=TIME)
    pool: Name | None = Field(None, description="Only decisions that changed or held this pool")
    model: Name | None = None
    tier: Name | None = None
    policy: Name | None = Field(None, description="The policy's name")
    kind: Literal["scale", "hold", "ladder", "route", "canary", "alarm"] | None = None
    shadow: bool | None = Field(
        None, description="Only changes of revisions in shadow, or only those that were to be done"
    )


class DecisionChangeOut(Schema):
    number: int = Field(validation_alias="pk")
    decision: str = Field(validation_alias="decision.key", description="The key of the decision")
    at: datetime
    kind: str
    pool: str
    model: str
    tier: str
    subject: str = Field(
        description="Of an alarm: a pool, a model or a cluster; the first two are in their own fields too"
    )
    policy: str
    revision: int | None
    shadow: bool = Field(description="Of a revision in shadow: nothing was done")
    before: float | None = Field(description="Replicas, or the step of the ladder")
    after: float | None
    reason: str


class ClusterActionOut(Schema):
    number: int = Field(validation_alias="pk")
    cluster: str
    pool: str
    kind: str
    before: int
    after: int
    replicas: list[str]
    step: str = Field(description="The last step that is done")
    started_at: datetime
    step_at: datetime
    accepted_at: datetime | None
    ended_at: datetime | None
    outcome: str


class DecisionsOut(Schema):
    """The newest first."""

    changes: list[DecisionChangeOut]
    next_before: int | None


class DecisionOut(Schema):
    key: str
    at: datetime
    version: int = Field(description="Of the decider that made it")
    holder: str = Field(description="The controller that led")
    generation: int
    took_s: float
    changes: list[DecisionChangeOut]
    actions: list[ClusterActionOut]
    record: Json[dict[str, Any]] = Field(
        description="What was seen with its age, revisions, memory, decision, and what other autoscalers would do"
    )


class ReplayOut(Schema):
    equal: bool = Field(description="Whether the decider makes the same decision of the record, byte for byte")
    version: int
    decision: dict[str, Any] = Field(description="As it was made again")
