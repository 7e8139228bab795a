"""What the pages of policies share: their frame, and freshness."""

import time
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from controlplane.dashboard import vendor
from controlplane.dashboard.views import common
from controlplane.dashboard.views.common import freshness_context
from controlplane.policy import queries
from controlplane.policy.queries import NewestDecision
from controlplane.telemetry.query.core.question import Question, parse

STALE_S = 30.0
"""A controller decides every second. One that has not for so long does not run, or nobody leads."""


def framed(
    request: HttpRequest, title: str, content: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """The page, or its data alone for htmx. `content` is the template of the data."""
    charted = {"plotly": vendor.plotly() if context.get("charted") else None}
    return common.framed(request, "policies", title, content, {**context, **charted}, status)


def standing_context(standing: NewestDecision | None, question: Question | None = None) -> dict[str, Any]:
    """The newest decision, and how old it is."""
    now_ns = time.time_ns()
    at_ns = int(standing.seen_at.timestamp() * 1e9) if standing else None
    shown = question or parse({}, now_ns)
    return {
        "standing": standing,
        "question": shown,
        "stale_s": stale_s(standing),
        "active": queries.in_force(),
        **freshness_context(shown, at_ns, now_ns),
    }


def stale_s(standing: NewestDecision | None) -> float | None:
    """For how long nothing has been decided; None where that is not too long."""
    if standing is None:
        return None
    age_s = (timezone.now() - standing.at).total_seconds()
    return age_s if age_s > STALE_S else None
