"""`GET deliveries`, `GET destinations`: what was sent where, how well that works, and the destinations. Never a secret."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Router, Schema

from controlplane.api.formats import Name, Number
from controlplane.incidents.notify.delivery.destinations import KINDS
from controlplane.incidents.notify.delivery.health.health import Health, health
from controlplane.incidents.notify.delivery.listing import listed
from controlplane.incidents.notify.delivery.models import Delivery, Destination

router = Router(tags=["paging"])

Action = Literal["trigger", "acknowledge", "resolve", "change"]
State = Literal["pending", "delivered", "dead", "dropped"]


class AskedDeliveries(Schema):
    key: list[Name] = Field([], max_length=50, description="The incident's key, as PagerDuty's dedup_key")
    destination: list[Name] = Field([], max_length=50, description="Names of destinations")
    state: list[State] = Field([], max_length=4, description="`dead` was refused; `dropped` was not needed any more")
    action: list[Action] = Field([], max_length=4)
    before: Number | None = Field(None, description="`next_before` of the page before")
    limit: int = Field(50, ge=1, le=1000)


class DeliveryOut(Schema):
    id: int
    key: str
    sequence: int
    action: Action
    destination: str | None
    state: State
    enqueued_at: datetime
    settled_at: datetime | None
    took_s: float | None
    attempts: int
    due_at: datetime | None
    status: int | None
    error: str
    stands_in_for: int | None


class HealthOut(Schema):
    """Of pages; `_1d` is the last day's. Null: nothing to measure."""

    state: Literal["up", "degraded", "down", "unknown"]
    detail: str
    pending: int
    oldest_pending_age_s: float | None
    delivered_1d: int
    refused_1d: int
    delivered_within_30s_share_1d: float | None
    sender_age_s: float | None


class DeliveriesOut(Schema):
    health: HealthOut
    rows: list[DeliveryOut]
    next_before: int | None


class DestinationOut(Schema):
    name: str
    kind: str = Field(json_schema_extra={"enum": list(KINDS)})
    team: str | None
    enabled: bool
    severities: list[str]
    takes_changes: bool
    fallback: str | None
    fallback_after_s: int


class DestinationsOut(Schema):
    rows: list[DestinationOut]


@router.get("/deliveries", response=DeliveriesOut, summary="What was sent, newest first, and how well that works")
def deliveries(request: HttpRequest, parameters: Query[AskedDeliveries]) -> dict[str, Any]:
    found = listed(parameters.dict(), parameters.before, parameters.limit)
    return {
        "health": health_out(health(timezone.now())),
        "rows": [row(one) for one in found.rows],
        "next_before": found.next_before,
    }


@router.get("/destinations", response=DestinationsOut, summary="Where notices go")
def destinations(request: HttpRequest) -> dict[str, Any]:
    return {
        "rows": [
            {
                "name": one.name,
                "kind": one.kind,
                "team": one.team.name if one.team else None,
                "enabled": one.enabled,
                "severities": one.severities,
                "takes_changes": one.takes_changes,
                "fallback": one.fallback.name if one.fallback else None,
                "fallback_after_s": one.fallback_after_s,
            }
            for one in Destination.objects.select_related("team", "fallback")
        ]
    }


def row(one: Delivery) -> dict[str, Any]:
    return {
        "id": one.pk,
        "key": one.key,
        "sequence": one.sequence,
        "action": one.action,
        "destination": one.destination.name if one.destination else None,
        "state": one.state,
        "enqueued_at": one.enqueued_at,
        "settled_at": one.settled_at,
        "took_s": (one.settled_at - one.enqueued_at).total_seconds() if one.settled_at else None,
        "attempts": one.attempts,
        "due_at": one.due_at if one.state == Delivery.State.PENDING else None,
        "status": one.status,
        "error": one.error,
        "stands_in_for": one.stands_in_for_id,
    }


def health_out(found: Health) -> dict[str, Any]:
    figures = found.figures
    return {
        "state": found.state,
        "detail": found.detail,
        "pending": figures.pending,
        "oldest_pending_age_s": figures.oldest_pending_age_s,
        "delivered_1d": figures.delivered_1d,
        "refused_1d": figures.refused_1d,
        "delivered_within_30s_share_1d": found.share_within_30s_1d,
        "sender_age_s": figures.sender_age_s,
    }
