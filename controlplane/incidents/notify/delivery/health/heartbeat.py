"""Sends the heartbeat while all is well.

It is a thread of the worker. A dead machine cannot page: the service that the heartbeat goes to pages when it stops. It stops while
objectives are not judged, nobody sends pages or looks at components, and while nobody was notified of an open page.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from controlplane.core.periodic import PeriodicThread
from controlplane.core.reported import reported_at
from controlplane.fleet.models import Observation
from controlplane.incidents.notify.delivery.core import outbound_address
from controlplane.incidents.notify.delivery.models import Heartbeat

log = structlog.get_logger(__name__)

LOOK_S = 5.0
PING_S = 60.0
PING_TIMEOUT_S = 10.0
MAX_UNJUDGED = timedelta(seconds=60)
"""For how long objectives may go unjudged."""


def judged_at(now: datetime) -> datetime | None:
    """The last tick of the controller in which anything could be judged; None: there was none."""
    at = Observation.objects.filter(component="controller").values_list("up_at", flat=True).first()
    return at and reported_at("controller up", at, now)


def are_judged(now: datetime) -> bool:
    """Whether objectives have been judged within MAX_UNJUDGED."""
    at = judged_at(now)
    return at is not None and now - at <= MAX_UNJUDGED


def works(name: str, now: datetime) -> bool:
    """Whether a thread of a worker worked lately. `name`: one of Heartbeat's."""
    row = Heartbeat.objects.filter(name=name).first()
    return row is not None and (now - reported_at(name, row.at, now)).total_seconds() < PING_S


async def ping(url: str) -> str:
    """Send one heartbeat; returns why it was not accepted, or an empty text."""
    # screens import this module, and send nothing
    from controlplane.incidents.notify.delivery.send.http_client import Client

    async with Client(outbound_address.allowed(settings.CONFIG.outbound_allow), PING_TIMEOUT_S) as client:
        answer = await client.get(url)
    if answer.status is not None and answer.status < 300:
        return ""
    log.warning("heartbeat.refused", status=answer.status, error=answer.error)
    return answer.why


class HeartbeatThread(PeriodicThread):
    """`not_notified` names the open pages that nobody was notified of, with the reason: while there are any, no heartbeat is sent."""

    def __init__(self, not_notified: Callable[[datetime], Sequence[str]] = lambda _: ()) -> None:
        super().__init__("heartbeat", self.ping_when_due, LOOK_S)
        self._not_notified = not_notified
        self._withheld: Sequence[str] = ()
        self._pinged = -PING_S

    def ping_when_due(self) -> None:
        now = timezone.now()
        well = are_judged(now) and works(Heartbeat.SENDER, now) and works(Heartbeat.COMPONENTS, now)
        well = well and not self._any_not_notified(now)
        url = settings.CONFIG.heartbeat_url
        if well and url and time.monotonic() - self._pinged >= PING_S:
            self._pinged = time.monotonic()
            error = asyncio.run(ping(url))
            Heartbeat.objects.update_or_create(name=Heartbeat.PING, defaults={"at": now, "error": error})

    def _any_not_notified(self, now: datetime) -> bool:
        not_notified = self._not_notified(now)
        if not_notified and not self._withheld:
            log.error("heartbeat.withheld", pages=len(not_notified), first=not_notified[0])
        elif self._withheld and not not_notified:
            log.info("heartbeat.resumed")
        self._withheld = not_notified
        return bool(not_notified)
