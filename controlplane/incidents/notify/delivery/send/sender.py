"""The sender: claims what is due, tells it, and settles. A thread of the worker, with an event loop of its own.

It is no Celery task: tasks travel through Redis, and pages must go out while Redis is away. It looks every POLL_S, which is one
query of a partial index; nobody needs to wake it, and a notice from any process or machine leaves as soon.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone

from controlplane.incidents.notify.delivery.core import outbound_address
from controlplane.incidents.notify.delivery.core.encryption import SealError
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy
from controlplane.incidents.notify.delivery.core.stored_notice import change_of, notice_of
from controlplane.incidents.notify.delivery.destinations import KINDS
from controlplane.incidents.notify.delivery.destinations.message import Message
from controlplane.incidents.notify.delivery.models import Delivery, Heartbeat
from controlplane.incidents.notify.delivery.send import claim, fallback, prune
from controlplane.incidents.notify.delivery.send.http_client import Client

log = structlog.get_logger(__name__)
T = TypeVar("T")

POLL_S = 0.5
AT_ONCE = 32
PER_ENDPOINT = 8
"""Requests on their way at once, over all endpoints and to one of them."""
HOUSEKEEPING_S = 5.0


def render_and_name(delivery: Delivery, now_s: int) -> Message:
    made = change_of(delivery.notice) if delivery.action == "change" else notice_of(delivery.notice)
    return Message(made, delivery.endpoint.url, delivery.endpoint.secret, f"weir-{delivery.pk}", now_s)


async def attempt(client: Client, delivery: Delivery) -> Answer:
    """One try. Never raises: what cannot be rendered is refused, so that it is seen and holds up nobody."""
    try:
        post = KINDS[delivery.endpoint.kind].render(render_and_name(delivery, int(timezone.now().timestamp())))
    except SealError as error:
        return Answer(None, str(error), blocked=True)
    except Exception as error:
        log.exception("a notice cannot be rendered", delivery=delivery.pk)
        return Answer(None, f"cannot be rendered: {type(error).__name__}: {error}", blocked=True)
    return await client.post(post.url, post.body, post.headers)


class Sender(threading.Thread):
    """Daemon thread; `stop()` ends it once what is on its way has been answered."""

    def __init__(self, policy: Policy | None = None, poll_s: float = POLL_S) -> None:
        super().__init__(name="sender", daemon=True)
        self._policy = policy or Policy()
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._database = ThreadPoolExecutor(1, thread_name_prefix="sender-database")

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._serve())
            except Exception:
                log.exception("the sender failed; starting it again")
                self._stopping.wait(self._poll_s)
        self._database.submit(connections.close_all)
        self._database.shutdown()

    def stop(self) -> None:
        self._stopping.set()

    async def _serve(self) -> None:
        allow = outbound_address.allowed(settings.CONFIG.outbound_allow)
        flying: dict[asyncio.Task[None], int] = {}
        async with Client(allow, self._policy.timeout_s) as client:
            keeping = asyncio.create_task(self._keep_house())
            try:
                while not self._stopping.is_set():
                    claimed = await self._claim(AT_ONCE - len(flying), Counter(flying.values()))
                    for one in claimed:
                        flying[asyncio.create_task(self._deliver(client, one))] = one.endpoint_id
                    await self._until_something_ends(flying)
                if flying:
                    await asyncio.wait(flying, timeout=self._policy.timeout_s)
            finally:
                keeping.cancel()

    async def _claim(self, free: int, busy: Counter[int]) -> list[Delivery]:
        if free <= 0:
            return []
        try:
            return await self._in_database(lambda: claim.claim(timezone.now(), self._policy, free, PER_ENDPOINT, busy))
        except DatabaseError as error:
            log.warning("deliveries not claimed; trying again", error=str(error))
            return []

    async def _until_something_ends(self, flying: dict[asyncio.Task[None], int]) -> None:
        """What follows a delivered step may leave at once; else look again after a while."""
        if not flying:
            await asyncio.sleep(self._poll_s)
            return
        done, _ = await asyncio.wait(flying, timeout=self._poll_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del flying[task]
            task.result()

    async def _deliver(self, client: Client, delivery: Delivery) -> None:
        if not self._in_time(delivery):
            return  # another sender may have it by now
        answer = await attempt(client, delivery)
        try:
            await self._in_database(
                lambda: claim.settle(delivery, answer, timezone.now(), self._policy, random.random())  # noqa: S311
            )
        except DatabaseError as error:
            # The lease runs out, and it is sent again: the receiver knows the key.
            log.warning("an answer was not written down", delivery=delivery.pk, error=str(error))

    def _in_time(self, delivery: Delivery) -> bool:
        """Whether the claim outlasts an attempt that begins now: two attempts of one step must not overlap with the next."""
        left = (delivery.claimed_until or timezone.now()) - timezone.now()
        return left >= timedelta(seconds=self._policy.timeout_s)

    async def _keep_house(self) -> None:
        while True:
            try:
                await self._in_database(keep_house)
            except DatabaseError as error:
                log.warning("the sender's housekeeping failed; trying again", error=str(error))
            except Exception:
                log.exception("the sender's housekeeping failed; trying again")
            await asyncio.sleep(HOUSEKEEPING_S)

    async def _in_database(self, work: Callable[[], T]) -> T:
        """Django's connections belong to threads: one thread has the one that the sender uses, and keeps while it works."""

        def run() -> T:
            try:
                return work()
            except DatabaseError:
                connections.close_all()
                raise

        return await asyncio.get_running_loop().run_in_executor(self._database, run)


def keep_house() -> None:
    close_old_connections()
    now = timezone.now()
    Heartbeat.objects.update_or_create(name=Heartbeat.SENDER, defaults={"at": now})
    fallback.fall_through_late_ones(now)
    prune.prune(now - timedelta(days=settings.CONFIG.retention_days))
    prune.prune_hooks(now)
