"""Claims deliveries that are due, sends and settles them. It is a thread of the worker, with its own event loop.

It is no Celery task, because tasks travel through Redis, and pages must go out while Redis is away. It polls every POLL_S, which is one
query of a partial index.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone
from opentelemetry.trace import SpanKind

from controlplane.core.periodic import PeriodicThread
from controlplane.incidents.notify.delivery.core import outbound_address
from controlplane.incidents.notify.delivery.core.encryption import SealError
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy
from controlplane.incidents.notify.delivery.core.stored_notice import change_of, notice_of
from controlplane.incidents.notify.delivery.destinations import KINDS
from controlplane.incidents.notify.delivery.destinations.kind import Message
from controlplane.incidents.notify.delivery.models import Delivery, Heartbeat
from controlplane.incidents.notify.delivery.send import claim, fallback, prune
from controlplane.incidents.notify.delivery.send.http_client import Client
from controlplane.observability import tracing

log = structlog.get_logger(__name__)
T = TypeVar("T")

POLL_S = 0.5
AT_ONCE = 32
PER_ENDPOINT = 8
"""Requests in flight: over all endpoints, and to one of them."""
HOUSEKEEPING_S = 5.0


async def attempt(client: Client, delivery: Delivery) -> Answer:
    """One attempt. It never raises: a notice that cannot be rendered counts as refused, so that it is seen and delays no other."""
    try:
        made = change_of(delivery.notice) if delivery.action == "change" else notice_of(delivery.notice)
        to, now_s = delivery.endpoint, int(timezone.now().timestamp())
        post = KINDS[to.kind].render(Message(made, to.url, to.secret, f"weir-{delivery.pk}", now_s))
    except SealError as error:
        return Answer(None, str(error), blocked=True)
    except Exception as error:
        log.exception("notice.render_failed", delivery=delivery.pk)
        return Answer(None, f"cannot be rendered: {type(error).__name__}: {error}", blocked=True)
    with tracing.span(
        "send page", SpanKind.CLIENT, delivery=delivery.pk, action=delivery.action, destination=to.kind
    ) as sending:
        answer = await client.post(post.url, post.body, post.headers)
        if answer.status is not None:
            sending.set_attribute("http.response.status_code", answer.status)
        return answer


class Sender(PeriodicThread):
    """`stop()` ends it once the requests in flight are answered."""

    def __init__(self, policy: Policy | None = None, poll_s: float = POLL_S) -> None:
        super().__init__("sender", lambda: asyncio.run(self._serve()), poll_s)
        self._policy = policy or Policy()
        self._poll_s = poll_s
        self._database = ThreadPoolExecutor(1, thread_name_prefix="sender-database")

    def run(self) -> None:
        super().run()
        self._database.submit(connections.close_all)
        self._database.shutdown()

    async def _serve(self) -> None:
        allow = outbound_address.allowed(settings.CONFIG.outbound_allow)
        flying: dict[asyncio.Task[None], int] = {}
        async with Client(allow, self._policy.timeout_s) as client:
            keeping = asyncio.create_task(self._keep_house())
            try:
                while not self._stopping.is_set():
                    claimed = await self._claim(AT_ONCE - len(flying), Counter(flying.values()))
                    for delivery in claimed:
                        flying[asyncio.create_task(self._deliver(client, delivery))] = delivery.endpoint_id
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
            log.warning("deliveries.claim_failed", error=str(error))
            return []

    async def _until_something_ends(self, flying: dict[asyncio.Task[None], int]) -> None:
        """Wait until a request ends, since what follows it may leave at once, or for POLL_S."""
        if not flying:
            await asyncio.sleep(self._poll_s)
            return
        done, _ = await asyncio.wait(flying, timeout=self._poll_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del flying[task]
            task.result()

    async def _deliver(self, client: Client, delivery: Delivery) -> None:
        if not self._in_time(delivery):
            return  # another sender may have claimed it by now
        answer = await attempt(client, delivery)
        try:
            await self._in_database(
                lambda: claim.settle(delivery, answer, timezone.now(), self._policy, random.random())  # noqa: S311
            )
        except DatabaseError as error:
            # The lease ends, and it is sent again: the receiver knows the key.
            log.warning("delivery.settle_failed", delivery=delivery.pk, error=str(error))

    def _in_time(self, delivery: Delivery) -> bool:
        """Whether the claim outlasts an attempt that begins now, so that no other sender sends it at the same time."""
        left = (delivery.claimed_until or timezone.now()) - timezone.now()
        return left >= timedelta(seconds=self._policy.timeout_s)

    async def _keep_house(self) -> None:
        while True:
            try:
                await self._in_database(keep_house)
            except DatabaseError as error:
                log.warning("sender.housekeeping_failed", error=str(error))
            except Exception:
                log.exception("sender.housekeeping_failed")
            await asyncio.sleep(HOUSEKEEPING_S)

    async def _in_database(self, work: Callable[[], T]) -> T:
        """Django's connections belong to threads, so all work on the database is done by one thread."""

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
