"""The watch over evaluation: pages when it stops, and tells a service elsewhere that all is well.

A thread of the worker, because what it watches runs in the controller, and the worker is what tells the outside. A machine that is
dead pages nobody: for that there is the heartbeat, which a service elsewhere misses.
"""

import asyncio
import threading
import time
from datetime import datetime

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

from controlplane.incidents.delivery import address, deadman, enqueue
from controlplane.incidents.delivery.http import Client
from controlplane.incidents.delivery.models import Heartbeat
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


@transaction.atomic
def look(now: datetime) -> bool:
    """One look, with a page or a resolve where there is something to tell; whether objectives are judged.

    Several workers may look at once: whoever has the row decides.
    """
    Heartbeat.objects.get_or_create(name=Heartbeat.EVALUATION, defaults={"at": now})
    row = Heartbeat.objects.select_for_update().get(name=Heartbeat.EVALUATION)
    seen = evaluation()
    is_stopped = deadman.stopped(seen, now, settings.CONFIG.evaluation_stopped_after_s, bool(row.open_key))
    action = deadman.step(is_stopped, bool(row.open_key))
    if action is not None:
        page_key = row.open_key or deadman.key(now)
        enqueue(deadman.notice(action, page_key, seen, now, settings.CONFIG.public_url))
        row.open_key = page_key if action == "trigger" else ""
    row.at = now
    row.save()
    return seen.judged_at is not None and not is_stopped


def sender_works(now: datetime) -> bool:
    row = Heartbeat.objects.filter(name=Heartbeat.SENDER).first()
    return row is not None and (now - row.at).total_seconds() < PING_S


async def ping(url: str) -> None:
    async with Client(address.allowed(settings.CONFIG.outbound_allow), PING_TIMEOUT_S) as client:
        answer = await client.get(url)
    if answer.status is None or answer.status >= 300:
        log.warning("the heartbeat was not taken", status=answer.status, error=answer.error)


class Watch(threading.Thread):
    """Daemon thread; `stop()` ends it after the look it is at."""

    def __init__(self, look_s: float = LOOK_S) -> None:
        super().__init__(name="watch", daemon=True)
        self._look_s = look_s
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
        well = look(now) and sender_works(now)
        url = settings.CONFIG.heartbeat_url
        if well and url and time.monotonic() - self._pinged >= PING_S:
            self._pinged = time.monotonic()
            asyncio.run(ping(url))
