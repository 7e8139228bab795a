"""Delivery's own objective: pages are delivered within 30 s. What the outbox says of it, and a judgement: `judge` is pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Count, DurationField, ExpressionWrapper, F, Min, Q

from controlplane.incidents.delivery.models import Delivery, Heartbeat

WITHIN_S = 30
OVER = timedelta(days=1)
SENDER_SEEN_S = 30
"""Its heartbeat is written every 5 s."""

State = Literal["up", "degraded", "down"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of pages; the last day's where it says so. None: nothing to measure."""

    pending: int
    oldest_pending_age_s: float | None
    delivered_1d: int
    delivered_within_30s_1d: int
    refused_1d: int
    sender_age_s: float | None


@dataclass(frozen=True, slots=True)
class Health:
    state: State
    detail: str  # empty while all is well
    figures: Figures

    @property
    def share_within_30s_1d(self) -> float | None:
        told = self.figures.delivered_1d + self.figures.refused_1d
        return self.figures.delivered_within_30s_1d / told if told else None


def health(now: datetime) -> Health:
    return judge(figures(now))


def figures(now: datetime) -> Figures:
    day = Delivery.objects.filter(is_page=True, settled_at__gte=now - OVER).annotate(
        took=ExpressionWrapper(F("settled_at") - F("enqueued_at"), output_field=DurationField())
    )
    delivered = Q(state=Delivery.State.DELIVERED)
    counts = day.aggregate(
        delivered=Count("id", filter=delivered),
        quick=Count("id", filter=delivered & Q(took__lte=timedelta(seconds=WITHIN_S))),
        refused=Count("id", filter=Q(state=Delivery.State.DEAD)),
    )
    waiting = Delivery.objects.filter(is_page=True, state=Delivery.State.PENDING)
    waits = waiting.aggregate(count=Count("id"), oldest=Min("enqueued_at"))
    sender = Heartbeat.objects.filter(name=Heartbeat.SENDER).values_list("at", flat=True).first()
    return Figures(
        pending=waits["count"],
        oldest_pending_age_s=_age_s(waits["oldest"], now),
        delivered_1d=counts["delivered"],
        delivered_within_30s_1d=counts["quick"],
        refused_1d=counts["refused"],
        sender_age_s=_age_s(sender, now),
    )


def judge(found: Figures) -> Health:
    """Down: pages wait, and nobody sends them. Degraded: they are late, or some were refused, or nobody would send them."""
    late = found.oldest_pending_age_s is not None and found.oldest_pending_age_s > WITHIN_S
    absent = found.sender_age_s is None or found.sender_age_s > SENDER_SEEN_S
    sentences: list[str] = []
    if absent:
        seen = "was never seen" if found.sender_age_s is None else f"was last seen {found.sender_age_s:.0f} s ago"
        sentences.append(f"Nobody sends pages: the worker's sender {seen}. Start the worker.")
    if late:
        oldest = found.oldest_pending_age_s or 0.0
        sentences.append(f"{found.pending} pages are not delivered, the oldest for {oldest:.0f} s.")
    if found.refused_1d:
        sentences.append(f"{found.refused_1d} pages of the last day were refused, and are not sent again.")
    state: State = "down" if absent and found.pending else "degraded" if sentences else "up"
    return Health(state, " ".join(sentences), found)


def _age_s(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())
