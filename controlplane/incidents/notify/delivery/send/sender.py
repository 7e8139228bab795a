"""Sends deliveries: a thread of the worker.

It is no Celery task, because tasks travel through Redis, and pages must go out while Redis is away.
"""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.utils import timezone
from opentelemetry.trace import SpanKind

from controlplane.core.encryption import SealError
from controlplane.incidents.notify.delivery.core.outbound_address import allowed
from controlplane.incidents.notify.delivery.core.retry import Answer, Policy
from controlplane.incidents.notify.delivery.core.stored_notice import change_of, notice_of
from controlplane.incidents.notify.delivery.destinations import KINDS, webhook
from controlplane.incidents.notify.delivery.destinations.kind import Message
from controlplane.incidents.notify.delivery.models import AUDIT, Delivery, Heartbeat
from controlplane.incidents.notify.delivery.send import claim, fallback, prune
from controlplane.incidents.notify.delivery.send.http_client import Client
from controlplane.incidents.notify.delivery.send.pump import POLL_S, Pump
from controlplane.observability import tracing

log = structlog.get_logger(__name__)

PER_ENDPOINT = 8
"""Requests in flight to one endpoint."""


class Sender(Pump[Delivery, int]):
    def __init__(self, policy: Policy | None = None, poll_s: float = POLL_S) -> None:
        super().__init__("sender", allowed(settings.CONFIG.outbound_allow), policy, poll_s)

    def claim(self, free: int, busy: Mapping[int, int]) -> list[Delivery]:
        return claim.claim(timezone.now(), self.policy, free, PER_ENDPOINT, busy)

    def whose(self, item: Delivery) -> int:
        return item.endpoint_id

    def claimed_until(self, item: Delivery) -> datetime | None:
        return item.claimed_until

    async def attempt(self, client: Client, item: Delivery) -> Answer:
        try:
            to, now_s, name = item.endpoint, int(timezone.now().timestamp()), f"weir-{item.pk}"
            if item.action == AUDIT:
                body = webhook.event(AUDIT, item.notice["at"], item.notice)
                post = webhook.signed(to.url, to.secret, name, now_s, body)
            else:
                made = change_of(item.notice) if item.action == "change" else notice_of(item.notice)
                post = KINDS[to.kind].render(Message(made, to.url, to.secret, name, now_s))
        except SealError as error:
            return Answer(None, str(error), blocked=True)
        except Exception as error:
            log.exception("notice.render_failed", delivery=item.pk)
            return Answer(None, f"cannot be rendered: {type(error).__name__}: {error}", blocked=True)
        with tracing.span(
            "send page", SpanKind.CLIENT, delivery=item.pk, action=item.action, destination=to.kind
        ) as sending:
            answer = await client.post(post.url, post.body, post.headers)
            if answer.status is not None:
                sending.set_attribute("http.response.status_code", answer.status)
            return answer

    def settle(self, item: Delivery, answer: Answer) -> None:
        claim.settle(item, answer, timezone.now(), self.policy, random.random())  # noqa: S311

    def keep_house(self) -> None:
        super().keep_house()
        now = timezone.now()
        Heartbeat.objects.update_or_create(name=Heartbeat.SENDER, defaults={"at": now})
        fallback.fall_through_late_ones(now)
        prune.prune(now - timedelta(days=settings.CONFIG.retention_days))
        prune.prune_hooks(now)
