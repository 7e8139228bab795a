"""Silences: current, future and past ones, and the form for a new one."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from controlplane.incidents.act import rights, silencing
from controlplane.incidents.core.silences import FIELDS
from controlplane.incidents.models import Incident, SilenceRecord
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.timerange import UNIT_S

LENGTHS = ("30m", "1h", "2h", "4h", "8h", "1d", "3d", "7d")
MAX_OVER = 50


def silences(request: HttpRequest) -> HttpResponse:
    """`?matcher=` (repeatable) fills the form in. POST makes one."""
    form = {
        "matchers": "\n".join(request.GET.getlist("matcher")[:20]),
        "length": request.GET.get("for", "1h"),
        "reason": request.GET.get("reason", ""),
    }
    errors: dict[str, list[str]] = {}
    if request.method == "POST":
        rights.require(request.user, rights.SILENCE)
        form = {name: request.POST.get(name, "") for name in ("matchers", "length", "reason")}
        try:
            made = _made(request, form)
        except ValidationError as error:
            errors = error.message_dict
        else:
            messages.success(request, f"Silenced until {made.ends_at:%Y-%m-%d %H:%M} UTC: {_hides(made)}.")
            return HttpResponseRedirect(_next(request))
    now = timezone.now()
    context: dict[str, Any] = {
        "active": _rows(SilenceRecord.objects.filter(starts_at__lte=now, ends_at__gt=now), now),
        "coming": _rows(SilenceRecord.objects.filter(starts_at__gt=now), now),
        "over": _rows(SilenceRecord.objects.filter(ends_at__lte=now)[:MAX_OVER], now),
        "form": form,
        "next": request.GET.get("next", request.POST.get("next", "")),
        "errors": errors,
        "lengths": LENGTHS,
        "fields": FIELDS,
        "open_form": bool(form["matchers"] or errors),
    }
    response = render(request, "incidents/silences.html", context, status=422 if errors else 200)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def end_silence(request: HttpRequest, number: int) -> HttpResponse:
    rights.require(request.user, rights.END_SILENCE)
    silence = get_object_or_404(SilenceRecord, pk=number)
    if silencing.end(silence, timezone.now(), request.user.get_username()):
        messages.success(request, "Ended. The next tick sends what still fires.")
    return HttpResponseRedirect(reverse("silences"))


def _next(request: HttpRequest) -> str:
    """Where the form was opened from, if that is one of our own pages."""
    target = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure())
    return target if ours else reverse("silences")


def _hides(made: SilenceRecord) -> str:
    count = silencing.hidden(made)
    return f"it covers {count} open incident{'' if count == 1 else 's'}"


def _made(request: HttpRequest, form: dict[str, str]) -> SilenceRecord:
    now = timezone.now()
    matchers = [line.strip() for line in form["matchers"].replace(",", "\n").splitlines() if line.strip()]
    return silencing.add(matchers, now, now + _length(form["length"]), request.user.get_username(), form["reason"])


def _length(text: str) -> timedelta:
    try:
        return timedelta(seconds=int(text[:-1]) * UNIT_S[text[-1]])
    except (ValueError, KeyError, IndexError, OverflowError, BadQuestionError):
        raise ValidationError({"length": [f"{text[:20]!r} is not a length: use 30m, 4h or 2d."]}) from None


def _rows(records: Any, now: datetime) -> list[dict[str, Any]]:
    open_ones = list(Incident.objects.exclude(status=Incident.Status.RESOLVED))
    return [
        {
            "silence": record,
            "ends_in_s": (record.ends_at - now).total_seconds(),
            "hides": silencing.hidden(record, open_ones),
        }
        for record in records
    ]
