"""Pages when objectives are not judged any more, and sends the heartbeat while all is well.

It is a thread of the worker, because what it watches runs in the controller. A dead machine cannot page: the service that the
heartbeat goes to pages when it stops. The heartbeat also stops while nobody sends pages, and while nobody was notified of an open page.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane.core.periodic import PeriodicThread
from controlplane.incidents.notify.delivery import enqueue, outbox
from controlplane.incidents.notify.delivery.core import deadman, outbound_address
from controlplane.incidents.notify.delivery.models import Heartbeat
from controlplane.incidents.notify.delivery.send.http_client import Client
from controlplane.slo.models import Tick

log = structlog.get_logger(__name__)

LOOK_S = 5.0
PING_S = 60.0
PING_TIMEOUT_S = 10.0


def evaluation() -> deadman.Evaluation:
    ticks = Tick.objects.order_by("-at")
    ticked, error = ticks.values_list("at", "error").first() or (None, "")
    judged = ticks.filter(error="").values_list("at", flat=True)
    return deadman.Evaluation(judged.first() or ticks.values_list("at", flat=True).last(), ticked, error)


def _nothing() -> bool:
    return False


@transaction.atomic
def look(now: datetime, explained: Callable[[], bool] = _nothing) -> bool:
    """Page or resolve if it is time to; whether objectives are judged.

    `explained`: whether a page was sent of what keeps objectives from being judged. Then no other page is.

    Several workers may call this at once: the one that locks the row decides.
    """
    Heartbeat.objects.get_or_create(name=Heartbeat.EVALUATION, defaults={"at": now})
    row = Heartbeat.objects.select_for_update().get(name=Heartbeat.EVALUATION)
    seen = evaluation()
    is_stopped = deadman.stopped(seen, now, bool(row.open_key))
    action = deadman.step(is_stopped, bool(row.open_key))
    if action == "trigger" and explained():
        action = None
    if action == "trigger":
        page_key = deadman.key(now)
        if enqueue(deadman.notice(action, page_key, seen, now, settings.CONFIG.public_url)):
            row.open_key = page_key  # else no destination takes it, and the next look tries again
    elif action == "resolve":
        enqueue(deadman.notice(action, row.open_key, seen, now, settings.CONFIG.public_url))
        row.open_key = ""
    elif row.open_key:
        outbox.catch_up(row.open_key)
    row.at = now
    row.save()
    return seen.judged_at is not None and not is_stopped


def works(name: str, now: datetime) -> bool:
    """Whether a thread of a worker worked lately. `name`: one of Heartbeat's."""
    row = Heartbeat.objects.filter(name=name).first()
    return row is not None and (now - row.at).total_seconds() < PING_S


async def ping(url: str) -> str:
    """Send one heartbeat; returns why it was not accepted, or an empty text."""
    async with Client(outbound_address.allowed(settings.CONFIG.outbound_allow), PING_TIMEOUT_S) as client:
        answer = await client.get(url)
    if answer.status is not None and answer.status < 300:
        return ""
    log.warning("heartbeat.refused", status=answer.status, error=answer.error)
    return " ".join(part for part in (str(answer.status or ""), answer.error.strip()) if part)[:500]


class EvaluationWatch(PeriodicThread):
    """Looks, and sends the heartbeat when it is due.

    `not_notified` names the open pages that nobody was notified of, with the reason: while there are any, no heartbeat is sent.
    `explained`: as for `look`.
    """

    def __init__(
        self,
        look_s: float = LOOK_S,
        not_notified: Callable[[datetime], Sequence[str]] = lambda _: (),
        explained: Callable[[], bool] = _nothing,
    ) -> None:
        super().__init__("watch", self.look_and_ping, look_s)
        self._not_notified = not_notified
        self._explained = explained
        self._withheld: Sequence[str] = ()
        self._pinged = -PING_S

    def look_and_ping(self) -> None:
        now = timezone.now()
        well = look(now, self._explained) and works(Heartbeat.SENDER, now) and works(Heartbeat.COMPONENTS, now)
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
