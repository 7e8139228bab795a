"""Takes PagerDuty's V3 webhooks: what people do there is done here too.

The URL needs no login: an event is taken if the signature over the raw body is right. Each event is a few writes, well within the 5 s
that PagerDuty waits for an answer.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from controlplane.core.encryption import SealError
from controlplane.incidents.act import actions
from controlplane.incidents.notify.delivery.destinations.pagerduty_inbound import Event, is_signed, parse
from controlplane.incidents.notify.delivery.models import HookEvent, HookSecret

log = structlog.get_logger(__name__)

MAX_BYTES = 1 << 20
TOO_OLD = timedelta(days=7)
"""PagerDuty retries for hours. An older event changes nothing; the ids of events are kept for longer (`send/prune.py`)."""
VIA = "pagerduty"

UNACKNOWLEDGED = "incident.unacknowledged"
"""By hand, or because nobody resolved it within PagerDuty's time."""
WRITTEN_AS_NOTE = {
    "incident.reopened": "Reopened in PagerDuty.",
    "incident.escalated": "Escalated in PagerDuty.",
    "incident.reassigned": "Reassigned in PagerDuty.",
}


@csrf_exempt
@login_not_required
@require_POST
def pagerduty(request: HttpRequest) -> HttpResponse:
    """Answers 202 to every signed event, also to one that changes nothing: PagerDuty sends again what gets another answer."""
    if int(request.headers.get("Content-Length") or 0) > MAX_BYTES:
        return HttpResponse(f"more than {MAX_BYTES} bytes\n", status=413, content_type="text/plain")
    body = request.body
    secrets, why_not = _secrets()
    if not is_signed(body, request.headers.get("X-PagerDuty-Signature", ""), secrets):
        if why_not:
            log.error("pagerduty_webhook.not_checked", reason=why_not)
            return HttpResponse("try again later\n", status=503, content_type="text/plain")
        log.warning("pagerduty_webhook.refused", reason="not signed with any of the secrets", secrets=len(secrets))
        return HttpResponse("not signed\n", status=401, content_type="text/plain")
    try:
        event = parse(json.loads(body))
    except ValueError as error:
        log.warning("pagerduty_webhook.refused", reason=str(error))
        return HttpResponse(f"{error}\n", status=400, content_type="text/plain")
    take(event, request.headers.get("X-Webhook-Id", "")[:100], timezone.now())
    return HttpResponse(status=202)


def _secrets() -> tuple[list[str], str]:
    """The secrets that can be decrypted, and why another cannot; empty where all can."""
    secrets, why_not = [], ""
    for row in HookSecret.objects.filter(enabled=True):
        try:
            secrets.append(row.secret)
        except SealError as error:
            why_not = f"{row.name}: {error}"
    return secrets, why_not


@transaction.atomic
def take(event: Event, webhook_id: str, now: datetime) -> None:
    """Do what the event says, once. The event's id is signed, the webhook's is not: a repeat is recognised by either."""
    if webhook_id and HookEvent.objects.filter(webhook_id=webhook_id).exists():
        return
    key = event.key or _key_of(event.incident_id)
    record, is_new = HookEvent.objects.get_or_create(
        event_id=event.id,
        defaults={
            "webhook_id": webhook_id,
            "event_type": event.type,
            "incident_id": event.incident_id,
            "key": key,
            "occurred_at": event.occurred_at,
            "received_at": now,
        },
    )
    if is_new:
        record.outcome = _outcome(event, key, now)
        record.save(update_fields=["outcome"])


def _key_of(incident_id: str) -> str:
    """Some events have only PagerDuty's id of the incident. An earlier event had it beside the key."""
    known = (
        HookEvent.objects.filter(incident_id=incident_id).exclude(key="") if incident_id else HookEvent.objects.none()
    )
    return known.values_list("key", flat=True).first() or ""


def _outcome(event: Event, key: str, now: datetime) -> str:
    at = min(event.occurred_at, now)
    if now - at > TOO_OLD:
        return "too old"
    if not key:
        return "no key"
    changed = _changes(event, key, at)
    return "ignored" if changed is None else "done" if changed() else "changes nothing, or is not ours"


def _changes(event: Event, key: str, at: datetime) -> Callable[[], bool] | None:
    match event.type:
        case "incident.acknowledged":
            return lambda: not _undone_since(key, event) and actions.acknowledge(key, event.by, at, via=VIA)
        case known if known == UNACKNOWLEDGED:
            return lambda: actions.unacknowledge(key, event.by, at, "No longer acknowledged in PagerDuty.")
        case "incident.resolved":
            return lambda: actions.resolve(key, event.by, at, via=VIA)
        case "incident.annotated":
            return lambda: actions.note(key, event.by, at, event.text)
        case known if known in WRITTEN_AS_NOTE:
            return lambda: actions.note(key, event.by, at, WRITTEN_AS_NOTE[known])
    return None


def _undone_since(key: str, event: Event) -> bool:
    """Whether an acknowledge comes late: after the event that undid it."""
    return HookEvent.objects.filter(key=key, event_type=UNACKNOWLEDGED, occurred_at__gte=event.occurred_at).exists()
