"""Incidents that nothing judges any more: their objective was deleted, or is disabled."""

from datetime import datetime

from controlplane.incidents import life
from controlplane.incidents.models import Incident
from controlplane.slo.models import StoredObjective

BY = "weir"
WHY = "Its objective was deleted or disabled: nothing judges it any more."


def retire(now: datetime) -> int:
    """Resolve them, and tell whoever was told: else they would stay open for ever. How many there were."""
    judged = StoredObjective.objects.filter(enabled=True).values("slug")
    left = Incident.objects.exclude(status=Incident.Status.RESOLVED).exclude(objective__in=judged)
    return sum(life.resolve(key, BY, now, WHY) for key in left.values_list("notice_key", flat=True))
