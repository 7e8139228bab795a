"""`GET deliveries`, `GET destinations`: what was sent where, how well delivery works, and which destinations there are, without secrets."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from controlplane.api.schemas.deliveries import DeliveriesOut, DeliveryParameters, DestinationsOut
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.notify.delivery.listing import listed
from controlplane.incidents.notify.delivery.models import Destination

router = Router(tags=["paging"])


@router.get(
    "/deliveries", response=DeliveriesOut, summary="What was sent, the newest first, and how well delivery works"
)
def deliveries(request: HttpRequest, parameters: Query[DeliveryParameters]) -> dict[str, Any]:
    page = listed(parameters.dict(), parameters.before, parameters.limit)
    return {"health": health(timezone.now()), "rows": page.rows, "next_before": page.next_before}


@router.get("/destinations", response=DestinationsOut, summary="Destinations")
def destinations(request: HttpRequest) -> dict[str, Any]:
    return {"rows": Destination.objects.select_related("team", "fallback")}
