"""`GET deliveries`, `GET destinations`: what was sent where, how well delivery works, and which destinations there are, without secrets."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Router, Schema

from controlplane.api.formats import Name, NameOf
from controlplane.api.listing import ListParameters
from controlplane.core.listing import newest_first
from controlplane.incidents.notify.delivery.destinations import KINDS
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.notify.delivery.models import Delivery, Destination

router = Router(tags=["paging"])
Action = Literal["trigger", "acknowledge", "resolve", "change", "audit"]
State = Literal["pending", "delivered", "dead", "dropped"]


class DeliveryParameters(ListParameters):
    key: list[Name] = Field([], max_length=50, description="The incident's key, as PagerDuty's dedup_key")
    destination: list[Name] = Field([], max_length=50, description="Names of destinations")
    state: list[State] = Field([], max_length=4, description="`dead` was refused; `dropped` was no longer needed")
    action: list[Action] = Field([], max_length=5)
    limit: int = Field(50, ge=1, le=1000)


class DeliveryOut(Schema):
    id: int
    key: str
    sequence: int
    action: Action
    destination: NameOf
    state: State
    enqueued_at: datetime
    settled_at: datetime | None
    took_s: float | None
    attempts: int
    due_at: datetime | None
    status: int | None
    error: str
    stands_in_for: int | None = Field(validation_alias="stands_in_for_id")

    @staticmethod
    def resolve_took_s(delivery: Delivery) -> float | None:
        return (delivery.settled_at - delivery.enqueued_at).total_seconds() if delivery.settled_at else None

    @staticmethod
    def resolve_due_at(delivery: Delivery) -> datetime | None:
        return delivery.due_at if delivery.state == Delivery.State.PENDING else None


class HealthOut(Schema):
    """Of pages; `_1d` is the last day's. Null: nothing to measure."""

    state: Literal["up", "degraded", "down", "unknown"]
    detail: str
    pending: int = Field(validation_alias="figures.pending")
    oldest_pending_age_s: float | None = Field(validation_alias="figures.oldest_pending_age_s")
    delivered_1d: int = Field(validation_alias="figures.delivered_1d")
    refused_1d: int = Field(validation_alias="figures.refused_1d")
    delivered_within_30s_share_1d: float | None = Field(validation_alias="share_within_30s_1d")
    sender_age_s: float | None = Field(validation_alias="figures.sender_age_s")


class DeliveriesOut(Schema):
    health: HealthOut
    rows: list[DeliveryOut]
    next_before: int | None


class DestinationOut(Schema):
    name: str
    kind: str = Field(json_schema_extra={"enum": list(KINDS)})
    team: NameOf
    enabled: bool
    severities: list[str]
    takes_changes: bool
    takes_audit: bool
    fallback: NameOf
    fallback_after_s: int


class DestinationsOut(Schema):
    rows: list[DestinationOut]


@router.get(
    "/deliveries", response=DeliveriesOut, summary="What was sent, the newest first, and how well delivery works"
)
def deliveries(request: HttpRequest, parameters: Query[DeliveryParameters]) -> dict[str, Any]:
    rows = Delivery.objects.select_related("destination")
    page = newest_first(rows, Delivery.FILTERS, parameters.dict(), parameters.before, parameters.limit)
    return {"health": health(timezone.now()), "rows": page.rows, "next_before": page.next_before}


@router.get("/destinations", response=DestinationsOut, summary="Destinations")
def destinations(request: HttpRequest) -> dict[str, Any]:
    return {"rows": Destination.objects.select_related("team", "fallback")}
