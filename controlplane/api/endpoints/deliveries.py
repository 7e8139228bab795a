"""`GET deliveries`, `GET destinations`: what was sent where, how well delivery works, and which destinations there are, without secrets."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from controlplane.api.schemas.deliveries import DeliveriesOut, DeliveryParameters, DestinationsOut
from controlplane.incidents.notify.delivery.health.health import Health, health
from controlplane.incidents.notify.delivery.listing import listed
from controlplane.incidents.notify.delivery.models import Delivery, Destination

router = Router(tags=["paging"])


@router.get(
    "/deliveries", response=DeliveriesOut, summary="What was sent, the newest first, and how well delivery works"
)
def deliveries(request: HttpRequest, parameters: Query[DeliveryParameters]) -> dict[str, Any]:
    page = listed(parameters.dict(), parameters.before, parameters.limit)
    return {
        "health": health_out(health(timezone.now())),
        "rows": [row(delivery) for delivery in page.rows],
        "next_before": page.next_before,
    }


@router.get("/destinations", response=DestinationsOut, summary="Destinations")
def destinations(request: HttpRequest) -> dict[str, Any]:
    return {
        "rows": [
            {
                "name": destination.name,
                "kind": destination.kind,
                "team": destination.team.name if destination.team else None,
                "enabled": destination.enabled,
                "severities": destination.severities,
                "takes_changes": destination.takes_changes,
                "fallback": destination.fallback.name if destination.fallback else None,
                "fallback_after_s": destination.fallback_after_s,
            }
            for destination in Destination.objects.select_related("team", "fallback")
        ]
    }


def row(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.pk,
        "key": delivery.key,
        "sequence": delivery.sequence,
        "action": delivery.action,
        "destination": delivery.destination.name if delivery.destination else None,
        "state": delivery.state,
        "enqueued_at": delivery.enqueued_at,
        "settled_at": delivery.settled_at,
        "took_s": (delivery.settled_at - delivery.enqueued_at).total_seconds() if delivery.settled_at else None,
        "attempts": delivery.attempts,
        "due_at": delivery.due_at if delivery.state == Delivery.State.PENDING else None,
        "status": delivery.status,
        "error": delivery.error,
        "stands_in_for": delivery.stands_in_for_id,
    }


def health_out(report: Health) -> dict[str, Any]:
    figures = report.figures
    return {
        "state": report.state,
        "detail": report.detail,
        "pending": figures.pending,
        "oldest_pending_age_s": figures.oldest_pending_age_s,
        "delivered_1d": figures.delivered_1d,
        "refused_1d": figures.refused_1d,
        "delivered_within_30s_share_1d": report.share_within_30s_1d,
        "sender_age_s": figures.sender_age_s,
    }
