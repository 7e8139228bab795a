"""Brings the incidents of components up to date with what was observed, every few seconds.

It is a thread of the worker, which also observes and sends pages: the page of a component that is down needs neither the controller nor
telemetry, the store or Redis. Several workers may run it; a row lock lets one decide at a time.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane.core.periodic import PeriodicThread
from controlplane.incidents.components import observed
from controlplane.incidents.components.core import judge
from controlplane.incidents.core.rules import Rules
from controlplane.incidents.decide import engine, rows
from controlplane.incidents.notify.delivery.models import Heartbeat

LOOK_S = 5.0


@transaction.atomic
def look(watching_since: datetime, now: datetime) -> None:
    """One look. `watching_since`: when the process began to look. Raises DatabaseError."""
    config = settings.CONFIG
    Heartbeat.objects.get_or_create(name=Heartbeat.COMPONENTS, defaults={"at": now})
    row = Heartbeat.objects.select_for_update().get(name=Heartbeat.COMPONENTS)
    seen = observed.read(watching_since, now, config.operated_by)
    alerts = judge.alerts(seen, rows.of_components().keys(), now, observed.limits(config))
    engine.observe_components(alerts, now, Rules(hold=timedelta(seconds=config.component_up_for_s)))
    row.at = now
    row.save()


class Watch:
    """The looks of one process. `since`: since when it could see observations. While it stood still, or the database did not answer,
    it could not, and nobody could write any.
    """

    def __init__(self, now: datetime) -> None:
        self.since = self.looked_at = now

    def look(self, now: datetime) -> None:
        """Raises DatabaseError."""
        if now - self.looked_at > timedelta(seconds=settings.CONFIG.stale_after_s):
            self.since = now
        look(self.since, now)
        self.looked_at = now


def component_watch() -> PeriodicThread:
    watch = Watch(timezone.now())
    return PeriodicThread("components", lambda: watch.look(timezone.now()), LOOK_S)
