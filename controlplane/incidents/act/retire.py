"""Resolves incidents whose objective was deleted or disabled."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from controlplane.incidents.act import actions
from controlplane.incidents.models import Incident
from controlplane.slo.models import StoredObjective

BY = "weir"
WHY = "Its objective was deleted or disabled."


@transaction.atomic
def retire(now: datetime, fence: Callable[[], None] = lambda: None) -> int:
    """Resolve them; returns how many. Nothing else would. `fence`: as in `engine.observe`."""
    fence()
    judged = StoredObjective.objects.filter(enabled=True).values("slug")
    left = Incident.objects.filter(component="").exclude(status=Incident.Status.RESOLVED).exclude(objective__in=judged)
    return sum(actions.resolve(key, BY, now, WHY, cools=False) for key in left.values_list("notice_key", flat=True))
