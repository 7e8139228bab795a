"""The context of every page's frame."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts import rights
from controlplane.accounts.core.actions import VIEW
from controlplane.accounts.models import SavedView
from controlplane.dashboard.core import zone
from controlplane.fleet.models import Team
from controlplane.incidents.act.actions import UNDO_FOR
from controlplane.incidents.core.rules import RULES
from controlplane.incidents.decide import rows
from controlplane.incidents.models import Incident
from controlplane.incidents.report import unnotified

POLICY_PAGES = ("policy", "decisions", "decision", "pauses", "fleet-changes", "fleet-change", "fleet-proposal")
"""Views that the bar shows as part of “Policies”."""


def open_incidents(request: HttpRequest) -> dict[str, Any]:
    """How many pages are open, and which of them were not notified; queried only by templates that show it."""

    def reads() -> bool:
        return rights.may(request.user, VIEW)

    def open_pages() -> int:
        if not reads():
            return 0
        pages = Incident.objects.filter(status=Incident.Status.OPEN, severity="page", withheld__in=rows.SHOULD_NOTIFY)
        return pages.count()

    def not_notified_pages() -> list[unnotified.NotNotified]:
        return unnotified.pages(timezone.now()) if reads() else []

    def saved_views() -> list[SavedView]:
        return list(SavedView.seen_by(request.user)) if reads() else []

    def team_names() -> list[str]:
        return list(Team.objects.order_by("name").values_list("name", flat=True)) if reads() else []

    return {
        "reads": reads,
        "saved_views": saved_views,
        "team_names": team_names,
        "policy_pages": POLICY_PAGES,
        "zone": zone.said(),
        "zones": zone.OFFERED,
        "zone_of_url": zone.of_url(),
        "without_zone": _without_zone(request),
        "open_pages": open_pages,
        "not_notified_pages": not_notified_pages,
        "undo_min": int(UNDO_FOR.total_seconds() // 60),
        "cool_down_min": int(RULES.cool_down.total_seconds() // 60),
    }


def _without_zone(request: HttpRequest) -> str:
    """The query of the same page in the zone that its reader keeps."""
    rest = request.GET.copy()
    rest.pop("tz", None)
    return rest.urlencode(safe=":")
