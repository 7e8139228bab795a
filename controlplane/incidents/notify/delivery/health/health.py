"""Judges delivery itself: pages are to be delivered within 30 s."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, Min, Q

from controlplane.core.formatting import TEXT
from controlplane.core.reported import reported_at
from controlplane.incidents.notify.delivery.models import Delivery, Destination, Heartbeat
from controlplane.incidents.notify.delivery.secret_checks import unreadable

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
    heartbeat_error: str = ""  # why the latest heartbeat was not accepted


@dataclass(frozen=True, slots=True)
class Health:
    state: State
    detail: str  # what is wrong or not known, then the newest delivery; never empty
    figures: Figures

    @property
    def is_stuck(self) -> bool:
        """Whether somebody has to act: pages wait too long, were refused, or would be."""
        return bool(self.title)

    @property
    def title(self) -> str:
        """The worst thing that is wrong; empty where nobody has to act."""
        age_s = self.figures.oldest_pending_age_s
        if self.state == "down":
            return "Nobody sends pages"
        if age_s is not None and age_s > WITHIN_S:
            return f"Pages wait for longer than {WITHIN_S} s"
        if self.figures.refused_1d:
            return "Pages were refused"
        if self.figures.unreadable:
            return "Stored secrets cannot be read"
        return "The heartbeat is not accepted" if self.figures.heartbeat_error else ""

    @property
    def share_within_30s_1d(self) -> float | None:
        settled = self.figures.delivered_1d + self.figures.refused_1d
        return self.figures.delivered_within_30s_1d / settled if settled else None


def health(now: datetime) -> Health:
    return judge(figures(now, unreadable()))


def nobody_sends(now: datetime) -> bool:
    """Whether pages wait and no sender was seen lately. Two short queries; no secret is decrypted."""
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
        takes_critical=any("critical" in destination.severities for destination in enabled.filter(team=None)),
        accepted_age_s=_age_s(accepted.settled_at if accepted else None, now),
        accepted_by=str(accepted.destination or "a removed destination") if accepted else "",
        refused_age_s=_age_s(counts["refused_at"], now),
        unreadable=tuple(cannot_read),
        heartbeat_error=_heartbeat_error(),
    )


def judge(figures: Figures) -> Health:
    """Down: pages wait, and nobody sends them. Degraded: pages are late or were refused, or would not be sent or taken.

    Unknown: no page has been accepted yet, so it is not known whether pages arrive.
    """
    late = figures.oldest_pending_age_s is not None and figures.oldest_pending_age_s > WITHIN_S
    unseen = figures.sender_age_s is None
    absent = _absent(figures.sender_age_s)
    sentences: list[str] = []
    if absent:
        seen = "has not been seen" if unseen else f"was last seen {TEXT.duration(figures.sender_age_s or 0.0)} ago"
        sentences.append(
            f"Nobody sends pages: the worker's sender {seen}. Start the worker; where it runs, its log says why."
        )
    if not figures.destinations:
        sentences.append(
            "No destination is enabled: nobody is notified of a page. Add one in Admin → Alert → Destinations."
        )
    elif not figures.takes_critical:
        sentences.append(
            "No default destination takes critical pages: nobody is notified of a page of a team that has no destination "
            "for it. Add the severity to one in Admin → Alert → Destinations."
        )
    if late:
        oldest = figures.oldest_pending_age_s or 0.0
        sentences.append(f"{_pages(figures.pending)} not delivered, the oldest for {TEXT.duration(oldest)}.")
    if figures.refused_1d:
        since = f", the newest {TEXT.duration(figures.refused_age_s)} ago" if figures.refused_age_s is not None else ""
        sentences.append(
            f"{_pages(figures.refused_1d, past=True)} refused in the last day{since}. Weir does not send them again by itself."
        )
    if figures.unreadable:
        count = len(figures.unreadable)
        sentences.append(f"{count} of the stored secrets: {figures.unreadable[0]}.")
    if figures.heartbeat_error:
        sentences.append(
            f"The service behind WEIR_HEARTBEAT_URL does not get the heartbeat: {figures.heartbeat_error.rstrip('.')}."
        )
    sentences.append(_accepted(figures))
    known = figures.destinations > 0 and not unseen
    lacking = late or figures.refused_1d or figures.unreadable or figures.heartbeat_error
    lacking = lacking or (figures.destinations and not figures.takes_critical)
    state: State = (
        "down"
        if absent and figures.pending
        else "degraded"
        if lacking or (absent and known)
        else "up"
        if known and figures.accepted_age_s is not None
        else "unknown"
    )
    return Health(state, " ".join(sentences), figures)


def _accepted(figures: Figures) -> str:
    if figures.accepted_age_s is None:
        return "Whether pages arrive is not known: no destination has accepted one yet. Send a test page to find out."
    return f"The newest page that was accepted: {TEXT.duration(figures.accepted_age_s)} ago, by {figures.accepted_by}."


def _absent(sender_age_s: float | None) -> bool:
    return sender_age_s is None or sender_age_s > SENDER_SEEN_S


def _sender_age_s(now: datetime) -> float | None:
    at = Heartbeat.objects.filter(name=Heartbeat.SENDER).values_list("at", flat=True).first()
    return _age_s(at and reported_at(Heartbeat.SENDER, at, now), now)


def _heartbeat_error() -> str:
    if not settings.CONFIG.heartbeat_url:
        return ""
    return Heartbeat.objects.filter(name=Heartbeat.PING).values_list("error", flat=True).first() or ""


def _pages(count: int, past: bool = False) -> str:
    verb = ("was" if count == 1 else "were") if past else ("is" if count == 1 else "are")
    return f"1 page {verb}" if count == 1 else f"{count} pages {verb}"


def _age_s(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())
