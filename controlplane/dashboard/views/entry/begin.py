"""From an empty Weir to the first page that reaches somebody: three steps, each with a check that it works."""

import time
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from controlplane.core.formatting import PAGE
from controlplane.dashboard.views.common import page
from controlplane.incidents.notify.delivery.models import Delivery, Destination
from controlplane.slo import queries
from controlplane.telemetry.query import answers
from controlplane.telemetry.query.core.timerange import SECOND_NS
from controlplane.telemetry.store import StoreUnavailableError

RECENT_S = 900


class Step(NamedTuple):
    """`works`: None where it is not known. `says` is what was seen; `how`, what to do until it works."""

    title: str
    works: bool | None
    says: str
    how: str
    href: str
    link: str


@page
def begin(request: HttpRequest) -> HttpResponse:
    steps = [_traffic(), _objective(), _paging()]
    return render(request, "dashboard/begin.html", {"steps": steps, "left": sum(not step.works for step in steps)})


def _traffic() -> Step:
    title, how = "Connect traffic", "Add a model, a pool and its replicas, and send requests to the gateway."
    href, link = reverse("admin:fleet_llmmodel_changelist"), "Models"
    try:
        newest_ns = answers.newest_ns()
    except StoreUnavailableError:
        return Step(title, None, "The store does not answer, so whether requests arrive is not known.", how, href, link)
    if newest_ns is None:
        return Step(title, False, "No request has been measured yet.", how, href, link)
    age_s = (time.time_ns() - newest_ns) / SECOND_NS
    return Step(
        title,
        age_s < RECENT_S,
        f"The newest request ended {PAGE.duration(age_s)} ago.",
        how,
        reverse("requests"),
        "Requests",
    )


def _objective() -> Step:
    title, how = (
        "Write an objective",
        "Say what users can expect of a model; “Would have paged?” replays it over recorded traffic.",
    )
    statuses = queries.all_statuses()
    judged = [status for status in statuses if status.state in ("firing", "quiet")]
    if not statuses:
        return Step(
            title,
            False,
            "There is no objective yet.",
            how,
            reverse("admin:slo_storedobjective_add"),
            "Add an objective",
        )
    if not judged:
        return Step(
            title, None, f"{statuses[0].row.name}: {statuses[0].why}.", how, reverse("objectives"), "Objectives"
        )
    seen = [status for status in judged if not status.is_empty]
    said = (
        f"{len(seen)} of {len(statuses)} are judged by requests."
        if seen
        else "They are judged, and no request is in their scope yet."
    )
    return Step(title, bool(seen), said, how, reverse("objectives"), "Objectives")


def _paging() -> Step:
    title, how = "Send a page", "Add a destination, and send it a test page from the list of destinations."
    href, link = reverse("admin:delivery_destination_changelist"), "Destinations"
    if not Destination.objects.filter(enabled=True).exists():
        return Step(title, False, "There is no enabled destination: nobody is paged.", how, href, link)
    newest = Delivery.objects.exclude(action="change").order_by("-enqueued_at").first()
    if newest is None:
        return Step(title, False, "No page has been sent yet, so whether one arrives is not known.", how, href, link)
    state = Delivery.State(newest.state)
    works = {Delivery.State.DELIVERED: True, Delivery.State.DEAD: False}.get(state)
    why = f": {newest.error}" if newest.error else ""
    return Step(
        title, works, f"The newest page is {state.label.lower()}{why}.", how, reverse("deliveries"), "Deliveries"
    )
