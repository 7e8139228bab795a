"""The page of deliveries: what was sent where, and the answers."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from controlplane.core.listing import newest_first
from controlplane.dashboard.views.common import list_filters, list_links, page
from controlplane.dashboard.views.overview import STATE_LOOKS
from controlplane.incidents.models import Incident
from controlplane.incidents.notify.delivery.health.health import health
from controlplane.incidents.notify.delivery.models import Delivery

PAGE_ROWS = 50
LOOKS = {
    "pending": ("…", "muted", "waiting"),
    "delivered": ("✓", "good", "delivered"),
    "dead": ("✕", "bad", "refused"),
    "dropped": ("◇", "muted", "not needed"),
}
"""Icon, colour class and word of a state."""
CHOICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("all", ()),
    ("waiting", ("pending",)),
    ("refused", ("dead",)),
    ("delivered", ("delivered",)),
)


@page
def deliveries(request: HttpRequest) -> HttpResponse:
    """`key`, `destination`, `state` and `action`, each repeatable; `before` is where a page begins."""
    wanted, before = list_filters(request, Delivery.FILTERS)
    sent = Delivery.objects.select_related("destination")
    page = newest_first(sent, Delivery.FILTERS, wanted, before, PAGE_ROWS)
    now = timezone.now()
    well = health(now)
    context = {
        "rows": rows(page.rows, now),
        "health": well,
        "look": STATE_LOOKS[well.state],
        **list_links(wanted, "state", CHOICES, before, page.next_before),
    }
    return render(request, "incidents/deliveries.html", context)


def rows(listed_rows: list[Delivery], now: Any) -> list[dict[str, Any]]:
    keys = {delivery.key for delivery in listed_rows}
    incidents = dict(Incident.objects.filter(notice_key__in=keys).values_list("notice_key", "pk"))
    return [
        {
            "delivery": delivery,
            "look": LOOKS[delivery.state],
            "summary": delivery.notice.get("summary", ""),
            "incident": incidents.get(delivery.key),
            "took_s": ((delivery.settled_at or now) - delivery.enqueued_at).total_seconds(),
            "next_s": max(0.0, (delivery.due_at - now).total_seconds())
            if delivery.state == "pending" and delivery.attempts
            else None,
        }
        for delivery in listed_rows
    ]
