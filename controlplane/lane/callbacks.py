"""Sends webhooks: a thread of the lane. They say that a batch or job has ended and how, and nothing of what was asked or answered."""

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec
import structlog
from django.utils import timezone
from prometheus_client import Counter

from controlplane.core.encryption import SealError
from controlplane.incidents.notify.delivery.core.outbound_address import Allowed
from controlplane.incidents.notify.delivery.core.retry import Answer, classify
from controlplane.incidents.notify.delivery.destinations.webhook import signed
from controlplane.incidents.notify.delivery.send.http_client import Client
from controlplane.incidents.notify.delivery.send.pump import POLL_S, Pump
from controlplane.lane.core import feed
from controlplane.lane.core.jobs import TO_TOPIC
from controlplane.lane.models import Batch, Callback, CallbackSecret
from controlplane.lane.store import callbacks

log = structlog.get_logger(__name__)
SENT = Counter("weir_lane_callbacks", "Attempts at webhooks, by what follows: delivered, refused, again.", ["status"])
for _status in ("delivered", "refused", "again"):
    SENT.labels(_status)  # 0 is known from the start


Read = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs what reads from the database."""


class Topic(Protocol):
    """Where results go that no webhook has."""

    async def deliver(self, job: Batch, read: Read) -> Answer: ...

    async def close(self) -> None: ...


class Callbacks(Pump[Callback, str]):
    """`results` writes to a topic, where there is one."""

    def __init__(self, allow: Allowed, results: Callable[[], Topic] | None = None) -> None:
        super().__init__("lane-callbacks", allow, callbacks.POLICY, POLL_S)
        self._make = results
        self._results: Topic | None = None

    async def _serve(self) -> None:
        results = self._results = self._make() if self._make else None
        try:
            await super()._serve()
        finally:
            if results is not None:
                await results.close()

    def claim(self, free: int, busy: Mapping[str, int]) -> list[Callback]:
        return callbacks.claim(self.policy, free, busy, to_topic=self._results is not None)

    def whose(self, item: Callback) -> str:
        return item.job.tenant

    def claimed_until(self, item: Callback) -> datetime | None:
        return item.due_at

    async def attempt(self, client: Client, item: Callback) -> Answer:
        job, ended_at = item.job, item.job.ended_at
        if self._results is not None and job.callback_url.startswith(TO_TOPIC):
            return await self._results.deliver(job, self._in_database)
        try:
            secret = await self._in_database(lambda: CallbackSecret.objects.get(tenant=job.tenant).secret)
        except (SealError, CallbackSecret.DoesNotExist) as error:
            log.warning("callback.unsigned", job=job.name, reason=str(error))
            return Answer(None, "its secret cannot be read: ask the operators of this gateway")
        event = feed.event(job.kind, job.name, job.status, job.metadata, int(ended_at.timestamp()) if ended_at else 0)
        now_s = int(timezone.now().timestamp())
        post = signed(job.callback_url, secret, event["id"], now_s, msgspec.json.encode(event))
        return await client.post(post.url, post.body, post.headers)

    def settle(self, item: Callback, answer: Answer) -> None:
        SENT.labels(classify(answer)).inc()
        callbacks.settle(item, answer, self.policy, random.random())  # noqa: S311  (no secret)
