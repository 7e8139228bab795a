"""Delivery's own objective: pages are delivered within 30 s. What the outbox says of it, and a judgement: `judge` is pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Count, DurationField, ExpressionWrapper, F, Min, Q

from controlplane.incidents.delivery.models import Delivery, Destination, Heartbeat
from controlplane.incidents.delivery.sealed import unreadable

WITHIN_S = 30
OVER = timedelta(days=1)
SENDER_SEEN_S = 30
"""Its heartbeat is written every 5 s."""

State = Literal["up", "degraded", "down", "unknown"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of pages; the last day's where it says so. None: nothing to measure."""

    pending: int
    oldest_pending_age_s: float | None
    delivered_1d: int
    delivered_within_30s_1d: int
    refused_1d: int
    sender_age_s: float | None
    destinations: int  # enabled
    unreadable: tuple[str, ...] = ()  # why, for each secret in use that cannot be decrypted


@dataclass(frozen=True, slots=True)
class Health:
    state: State
    detail: str  # empty while all is well
    figures: Figures

    @property
    def is_stuck(self) -> bool:
        """Pages wait that should have been told, were refused, or would be: somebody must look."""
        age_s = self.figures.oldest_pending_age_s
        if self.figures.refused_1d or self.figures.unreadable:
            return True
        return (age_s is not None and age_s > WITHIN_S) or self.state == "down"

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
        destinations=Destination.objects.filter(enabled=True).count(),
        unreadable=tuple(unreadable()),
    )


def judge(found: Figures) -> Health:
    """Down: pages wait, and nobody sends them. Degraded: they are late, or some were refused, or nobody would send them."""
    late = found.oldest_pending_age_s is not None and found.oldest_pending_age_s > WITHIN_S
    unseen = found.sender_age_s is None
    absent = unseen or (found.sender_age_s or 0.0) > SENDER_SEEN_S
    sentences: list[str] = []
    if absent:
        seen = "has not been seen" if unseen else f"was last seen {found.sender_age_s:.0f} s ago"
        sentences.append(f"Nobody sends pages: the worker's sender {seen}. Start the worker.")
    if late:
        oldest = found.oldest_pending_age_s or 0.0
        sentences.append(f"{_pages(found.pending)} not delivered, the oldest for {oldest:.0f} s.")
    if found.refused_1d:
        sentences.append(f"{_pages(found.refused_1d)} refused in the last day, and not sent again.")
    if found.unreadable:
        count = len(found.unreadable)
        sentences.append(f"{count} of the stored secrets: {found.unreadable[0]}.")
    if not found.destinations:
        sentences.append("No destination is enabled: pages go nowhere. Add one in the admin.")
    known = found.destinations > 0 and not unseen
    state: State = (
        "down"
        if absent and found.pending
        else "degraded"
        if late or found.refused_1d or found.unreadable or (absent and known)
        else "up"
        if known
        else "unknown"
    )
    return Health(state, " ".join(sentences), found)


def _pages(count: int) -> str:
    return "1 page is" if count == 1 else f"{count} pages are"


def _age_s(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())
