"""`decisions`: what ticks decided, what became of it, and the same decision made again."""

import json
import time
from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema
from pydantic import Json

from controlplane.api.formats import TIME, DecisionKey, Instant, Name
from controlplane.api.listing import ListParameters, newest_first
from controlplane.policy.core import record
from controlplane.policy.models import DecisionChange, DecisionRecord
from controlplane.policy.replay import decide_again
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS, parse

router = Router(tags=["policies"])
FILTERS = ("pool", "model", "tier", "policy", "kind", "shadow")


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


@router.get("/decisions", response=DecisionsOut, summary="What ticks changed or held, the newest first")
def all_decisions(request: HttpRequest, parameters: Query[DecisionParameters]) -> dict[str, Any]:
    window = parse(parameters.from_, parameters.to, time.time_ns()).window
    wanted = {name: getattr(parameters, name) for name in FILTERS if getattr(parameters, name) is not None}
    began, ended = (datetime.fromtimestamp(ns / SECOND_NS, UTC) for ns in (window.from_ns, window.to_ns))
    rows = DecisionChange.objects.select_related("decision").defer("decision__packed")
    rows = rows.filter(at__gte=began, at__lt=ended, **wanted)
    return newest_first(rows, parameters, "changes")


@router.get("/decisions/{key}", response=DecisionOut, summary="One decision, with its record")
def one_decision(request: HttpRequest, key: DecisionKey) -> DecisionRecord:
    return get_object_or_404(DecisionRecord.objects.prefetch_related("changes__decision"), key=key)


@router.get("/decisions/{key}/replay", response=ReplayOut, summary="Decide again of the record, and compare")
def replay(request: HttpRequest, key: DecisionKey) -> dict[str, Any]:
    """409 where another version decided it, or a revision of a policy cannot be read."""
    row = get_object_or_404(DecisionRecord, key=key)
    try:
        then = record.decode(row.record)
        again = decide_again(then)
    except record.RecordError as error:
        raise BadQuestionError("key", key, f"cannot be replayed: {error}", "Read its record instead") from None
    return {"equal": again == record.encode(then.decision), "version": then.version, "decision": json.loads(again)}
