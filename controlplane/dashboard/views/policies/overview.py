"""Policies: where each pool and tier stands, what is paused, and what was used beside perfect foresight."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.core.documents import lifecycle
from controlplane.dashboard.core.policy_rows import canary_rows, failover_rows, headline, ladder_rows, target_rows
from controlplane.dashboard.views.common import page
from controlplane.dashboard.views.policies.frame import framed, standing_context
from controlplane.policy import queries
from controlplane.policy.core.pool_use import used
from controlplane.policy.models import Action, Override, Pause, PolicyRevision
from controlplane.policy.revisions import pausing

BACK = timedelta(hours=24)
MAX_RECORDS = 1_500
"""Of a day: one each minute."""


@require_safe
@page
def policies(request: HttpRequest) -> HttpResponse:
    """Every pool and tier that a policy is about, as the newest decision has them."""
    standing = queries.newest_decision()
    context: dict[str, Any] = standing_context(standing)
    now = timezone.now()
    context |= {
        "rows": policy_rows(PolicyRevision.objects.order_by("name", "-number")),
        "pauses": pausing.in_force(Pause).order_by("ends_at"),
        "overrides": pausing.in_force(Override.objects.counting()).order_by("ends_at"),
        "waiting_overrides": pausing.in_force(Override).filter(waits=True).count(),
        "actions": list(Action.objects.filter(ended_at__isnull=True).select_related("decision").order_by("started_at")),
        "now": now,
        "live": True,
    }
    if standing and standing.record:
        record, active = standing.record, context["active"]
        is_stale = context["stale_s"] is not None
        ladders = ladder_rows(record, active, is_stale=is_stale)
        context |= {
            "targets": target_rows(record, standing.at_ms, is_stale=is_stale),
            "ladders": ladders,
            "canaries": canary_rows(record, active, is_stale=is_stale),
            "failovers": failover_rows(record.decision),
            "headline": headline(record, ladders, context["stale_s"]),
            "uses": used(queries.records(now - BACK, now, MAX_RECORDS), standing.at_ms),
        }
    return framed(request, "Policies", "_overview.html", context)


def policy_rows(revisions: Iterable[PolicyRevision]) -> list[dict[str, Any]]:
    """Each policy by its name, with the revision in force, that in shadow, and the newest one. Retired ones come last."""
    by_name: dict[str, list[PolicyRevision]] = {}
    for row in revisions:
        by_name.setdefault(row.name, []).append(row)
    rows = []
    for name, numbered in by_name.items():
        active = next((row for row in numbered if row.state == PolicyRevision.State.ACTIVE), None)
        shadow = next((row for row in numbered if row.state == PolicyRevision.State.SHADOW), None)
        newest = numbered[0]
        rows.append(
            {
                "name": name,
                "kind": newest.kind,
                "team": newest.team,
                "active": active,
                "shadow": shadow,
                "waiting": newest if newest.state in lifecycle.OPEN and newest != shadow else None,
                "revisions": len(numbered),
            }
        )
    return sorted(rows, key=lambda row: (row["active"] is None, row["name"]))
