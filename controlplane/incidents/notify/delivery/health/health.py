"""Delivery's own objective: pages are delivered within 30 s. What the outbox says of it, and a judgement: `judge` is pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, Min, Q

from controlplane.core.formatting import TEXT
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Heartbeat
from controlplane.incidents.notify.delivery.secrets.checks import unreadable

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
    takes_critical: bool = True  # any enabled default destination
    accepted_age_s: float | None = None  # of the newest page that a destination accepted; None: none on record
    accepted_by: str = ""
    refused_age_s: float | None = None  # of the newest page that was refused within the last day
    unreadable: tuple[str, ...] = ()  # why, for each secret in use that cannot be decrypted


@dataclass(frozen=True, slots=True)
class Health:
    state: State
    detail: str  # what is wrong or not known, and then what happened last; never empty
    figures: Figures

    @property
    def is_stuck(self) -> bool:
        """Pages wait that should have been told, were refused, or would be: somebody must look."""
        return bool(self.title)

    @property
    def title(self) -> str:
        """What is wrong, the worst first; empty where nobody need look."""
        age_s = self.figures.oldest_pending_age_s
        if self.state == "down":
            return "Nobody sends pages"
        if age_s is not None and age_s > WITHIN_S:
            return f"Pages wait for longer than {WITHIN_S} s"
        if self.figures.refused_1d:
            return "Pages were refused"
        return "Stored secrets cannot be read" if self.figures.unreadable else ""

    @property
    def share_within_30s_1d(self) -> float | None:
        told = self.figures.delivered_1d + self.figures.refused_1d
        return self.figures.delivered_within_30s_1d / told if told else None


def health(now: datetime) -> Health:
    return judge(figures(now, unreadable()))


def nobody_sends(now: datetime) -> bool:
    """Pages wait, and no sender was seen lately: two short queries, and no secret is decrypted."""
    if not Delivery.objects.filter(is_page=True, state=Delivery.State.PENDING).exists():
        return False
    return _absent(_sender_age_s(now))


def figures(now: datetime, cannot_read: Sequence[str] = ()) -> Figures:
    pages = Delivery.objects.filter(is_page=True)
    day = pages.filter(settled_at__gte=now - OVER).annotate(
        took=ExpressionWrapper(F("settled_at") - F("enqueued_at"), output_field=DurationField())
    )
    delivered = Q(state=Delivery.State.DELIVERED)
    counts = day.aggregate(
        delivered=Count("id", filter=delivered),
        quick=Count("id", filter=delivered & Q(took__lte=timedelta(seconds=WITHIN_S))),
        refused=Count("id", filter=Q(state=Delivery.State.DEAD)),
        refused_at=Max("settled_at", filter=Q(state=Delivery.State.DEAD)),
    )
    waits = pages.filter(state=Delivery.State.PENDING).aggregate(count=Count("id"), oldest=Min("enqueued_at"))
    accepted = pages.filter(delivered).select_related("destination").order_by("-settled_at").first()
    enabled = Destination.objects.filter(enabled=True)
    return Figures(
        pending=waits["count"],
        oldest_pending_age_s=_age_s(waits["oldest"], now),
        delivered_1d=counts["delivered"],
        delivered_within_30s_1d=counts["quick"],
        refused_1d=counts["refused"],
        sender_age_s=_sender_age_s(now),
        destinations=enabled.count(),
        takes_critical=any("critical" in one.severities for one in enabled.filter(team=None)),
        accepted_age_s=_age_s(accepted.settled_at if accepted else None, now),
        accepted_by=str(accepted.destination or "a removed destination") if accepted else "",
        refused_age_s=_age_s(counts["refused_at"], now),
        unreadable=tuple(cannot_read),
    )


def judge(found: Figures) -> Health:
    """Down: pages wait, and nobody sends them. Degraded: they are late, or some were refused, or nobody would send or take them.

    Unknown: no page has been accepted yet, so nobody has seen that one arrives.
    """
    late = found.oldest_pending_age_s is not None and found.oldest_pending_age_s > WITHIN_S
    unseen = found.sender_age_s is None
    absent = _absent(found.sender_age_s)
    sentences: list[str] = []
    if absent:
        seen = "has not been seen" if unseen else f"was last seen {TEXT.duration(found.sender_age_s or 0.0)} ago"
        sentences.append(f"Nobody sends pages: the worker's sender {seen}. Start the worker.")
    if not found.destinations:
        sentences.append(
            "No destination is enabled: nobody is told of a page. Add one in Admin → Paging → Destinations."
        )
    elif not found.takes_critical:
        sentences.append(
            "No default destination takes critical pages: nobody is told of a page of a team that has no destination "
            "for it. Add the severity to one in Admin → Paging → Destinations."
        )
    if late:
        oldest = found.oldest_pending_age_s or 0.0
        sentences.append(f"{_pages(found.pending)} not delivered, the oldest for {TEXT.duration(oldest)}.")
    if found.refused_1d:
        since = f", the newest {TEXT.duration(found.refused_age_s)} ago" if found.refused_age_s is not None else ""
        sentences.append(
            f"{_pages(found.refused_1d, past=True)} refused in the last day{since}. Weir does not send them again by itself."
        )
    if found.unreadable:
        count = len(found.unreadable)
        sentences.append(f"{count} of the stored secrets: {found.unreadable[0]}.")
    sentences.append(_accepted(found))
    known = found.destinations > 0 and not unseen
    lacking = late or found.refused_1d or found.unreadable or (found.destinations and not found.takes_critical)
    state: State = (
        "down"
        if absent and found.pending
        else "degraded"
        if lacking or (absent and known)
        else "up"
        if known and found.accepted_age_s is not None
        else "unknown"
    )
    return Health(state, " ".join(sentences), found)


def _accepted(found: Figures) -> str:
    if found.accepted_age_s is None:
        return "Whether pages arrive is not known: no destination has accepted one yet. Send a test page to find out."
    return f"The newest page that was accepted: {TEXT.duration(found.accepted_age_s)} ago, by {found.accepted_by}."


def _absent(sender_age_s: float | None) -> bool:
    return sender_age_s is None or sender_age_s > SENDER_SEEN_S


def _sender_age_s(now: datetime) -> float | None:
    return _age_s(Heartbeat.objects.filter(name=Heartbeat.SENDER).values_list("at", flat=True).first(), now)


def _pages(count: int, past: bool = False) -> str:
    verb = ("was" if count == 1 else "were") if past else ("is" if count == 1 else "are")
    return f"1 page {verb}" if count == 1 else f"{count} pages {verb}"


def _age_s(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())
