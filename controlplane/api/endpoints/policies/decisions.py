"""`decisions`: what ticks decided, what became of it, and the same decision made again."""

import json
import time
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from controlplane.api.formats import DecisionKey
from controlplane.api.listing import newest_first
from controlplane.api.schemas.policies import decisions as schemas
from controlplane.policy.core import record
from controlplane.policy.models import DecisionChange, DecisionRecord
from controlplane.policy.replay import decide_again
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import SECOND_NS, parse

router = Router(tags=["policies"])
FILTERS = ("pool", "model", "tier", "policy", "kind", "shadow")


@router.get("/decisions", response=schemas.DecisionsOut, summary="What ticks changed or held, the newest first")
def all_decisions(request: HttpRequest, parameters: Query[schemas.DecisionParameters]) -> dict[str, Any]:
    window = parse(parameters.from_, parameters.to, time.time_ns()).window
    wanted = {name: getattr(parameters, name) for name in FILTERS if getattr(parameters, name) is not None}
    began, ended = (datetime.fromtimestamp(ns / SECOND_NS, UTC) for ns in (window.from_ns, window.to_ns))
    rows = DecisionChange.objects.select_related("decision").defer("decision__packed")
    rows = rows.filter(at__gte=began, at__lt=ended, **wanted)
    return newest_first(rows, parameters, "changes")


@router.get("/decisions/{key}", response=schemas.DecisionOut, summary="One decision, with its record")
def one_decision(request: HttpRequest, key: DecisionKey) -> DecisionRecord:
    return get_object_or_404(DecisionRecord.objects.prefetch_related("changes__decision"), key=key)


@router.get("/decisions/{key}/replay", response=schemas.ReplayOut, summary="Decide again of the record, and compare")
def replay(request: HttpRequest, key: DecisionKey) -> dict[str, Any]:
    """409 where another version decided it, or a revision of a policy cannot be read."""
    row = get_object_or_404(DecisionRecord, key=key)
    try:
        then = record.decode(row.record)
        again = decide_again(then)
    except record.RecordError as error:
        raise BadQuestionError("key", key, f"cannot be replayed: {error}", "Read its record instead") from None
    return {"equal": again == record.encode(then.decision), "version": then.version, "decision": json.loads(again)}
