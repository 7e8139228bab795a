"""The watch over evaluation: pages when it stops, and tells a service elsewhere that all is well.

A thread of the worker, because what it watches runs in the controller, and the worker is what tells the outside. A machine that is
dead pages nobody: for that there is the heartbeat, which a service elsewhere misses. It misses it too while nobody sends pages,
and while an open page has reached nobody.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

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
    """One look, with a page or a resolve where there is something to tell; whether objectives are judged.

    `explained`: people were told of what keeps objectives from being judged, so that nobody need be told of that too.

    Several workers may look at once: whoever has the row decides.
    """
    Heartbeat.objects.get_or_create(name=Heartbeat.EVALUATION, defaults={"at": now})
    row = Heartbeat.objects.select_for_update().get(name=Heartbeat.EVALUATION)
    seen = evaluation()
    is_stopped = deadman.stopped(seen, now, settings.CONFIG.evaluation_stopped_after_s, bool(row.open_key))
    action = deadman.step(is_stopped, bool(row.open_key))
    if action == "trigger" and explained():
        action = None
    if action == "trigger":
        page_key = deadman.key(now)
        if enqueue(deadman.notice(action, page_key, seen, now, settings.CONFIG.public_url)):
            row.open_key = page_key  # else nobody takes it, and the next look tries again
    elif action == "resolve":
        enqueue(deadman.notice(action, row.open_key, seen, now, settings.CONFIG.public_url))
        row.open_key = ""
    elif row.open_key:
        outbox.catch_up(row.open_key)
    row.at = now
    row.save()
    return seen.judged_at is not None and not is_stopped


def works(name: str, now: datetime) -> bool:
    """Whether a thread of a worker was seen at work lately: one of Heartbeat's names."""
    row = Heartbeat.objects.filter(name=name).first()
    return row is not None and (now - row.at).total_seconds() < PING_S


async def ping(url: str) -> None:
    async with Client(outbound_address.allowed(settings.CONFIG.outbound_allow), PING_TIMEOUT_S) as client:
        answer = await client.get(url)
    if answer.status is None or answer.status >= 300:
        log.warning("the heartbeat was not taken", status=answer.status, error=answer.error)


class Watch(threading.Thread):
    """Daemon thread; `stop()` ends it after the look it is at.

    `unheard` names the open pages that reached nobody, and why: while there are any, the heartbeat is not sent. `explained`: people
    were told of what keeps objectives from being judged.
    """

    def __init__(
        self,
        look_s: float = LOOK_S,
        unheard: Callable[[datetime], Sequence[str]] | None = None,
        explained: Callable[[], bool] = _nothing,
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._look_s = look_s
        self._unheard = unheard or (lambda _: ())
        self._explained = explained
        self._withheld: Sequence[str] = ()
        self._stopping = threading.Event()
        self._pinged = -PING_S

    def run(self) -> None:
        while not self._stopping.is_set():
            close_old_connections()
            try:
                self._once()
            except DatabaseError as error:
                log.warning("evaluation was not looked at; trying again", error=str(error))
            except Exception:
                log.exception("the watch over evaluation failed; trying again")
            self._stopping.wait(self._look_s)
        close_old_connections()

    def stop(self) -> None:
        self._stopping.set()

    def _once(self) -> None:
        now = timezone.now()
        well = look(now, self._explained) and works(Heartbeat.SENDER, now) and works(Heartbeat.COMPONENTS, now)
        well = well and not self._pages_unheard(now)
        url = settings.CONFIG.heartbeat_url
        if well and url and time.monotonic() - self._pinged >= PING_S:
            self._pinged = time.monotonic()
            asyncio.run(ping(url))

    def _pages_unheard(self, now: datetime) -> bool:
        found = self._unheard(now)
        if found and not self._withheld:
            log.error("heartbeat.withheld", pages=len(found), first=found[0])
        elif self._withheld and not found:
            log.info("heartbeat.resumed")
        self._withheld = found
        return bool(found)
