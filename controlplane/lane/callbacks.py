"""Sends webhooks: a thread of the lane. They say that a batch or job has ended and how, and nothing of what was asked or answered."""

import random
from collections.abc import Mapping
from datetime import datetime

import msgspec
import structlog
from django.utils import timezone
from prometheus_client import Counter

from controlplane.incidents.notify.delivery.core.encryption import SealError
from controlplane.incidents.notify.delivery.core.outbound_address import Allowed
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy, classify
from controlplane.incidents.notify.delivery.destinations.webhook import signed
from controlplane.incidents.notify.delivery.send.http_client import Client
from controlplane.incidents.notify.delivery.send.pump import POLL_S, Pump
from controlplane.lane.core import feed
from controlplane.lane.models import Callback, CallbackSecret
from controlplane.lane.store import callbacks

log = structlog.get_logger(__name__)
SENT = Counter("weir_lane_callbacks", "Attempts at webhooks, by what follows: delivered, refused, again.", ["status"])
for _status in ("delivered", "refused", "again"):
    SENT.labels(_status)  # 0 is known from the start


class Callbacks(Pump[Callback, str]):
    def __init__(self, allow: Allowed, policy: Policy = callbacks.POLICY, poll_s: float = POLL_S) -> None:
        super().__init__("lane-callbacks", allow, policy, poll_s)

    def claim(self, free: int, busy: Mapping[str, int]) -> list[Callback]:
        return callbacks.claim(self.policy, free, busy)

    def whose(self, item: Callback) -> str:
        return item.job.tenant

    def claimed_until(self, item: Callback) -> datetime | None:
        return item.due_at

    async def attempt(self, client: Client, item: Callback) -> Answer:
        job, ended_at = item.job, item.job.ended_at
        try:
            secret = await self._in_database(lambda: callbacks.secret_of(job.tenant))
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
