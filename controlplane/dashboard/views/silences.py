"""Silences: current, future and past ones, and the form for a new one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SILENCE
from controlplane.dashboard.core import zone
from controlplane.dashboard.views.common import LENGTHS, back, end_of, page
from controlplane.incidents.act import existing, silencing
from controlplane.incidents.core.silences import FIELDS
from controlplane.incidents.models import Incident, SilenceRecord

PICKED = ("objective", "component", "severity", "model", "pool", "tier", "tenant", "owner")
"""What is chosen from what there is. Anything else is written."""
MAX_OVER = 50


@page
def silences(request: HttpRequest) -> HttpResponse:
    """`?matcher=` (repeatable) fills the form in. POST makes one."""
    known = existing.existing()
    form = {"length": request.GET.get("for", "1h"), "reason": request.GET.get("reason", "")}
    form |= _chosen(request.GET.getlist("matcher")[:20], known)
    errors: dict[str, list[str]] = {}
    if request.method == "POST":
        rights.require_anywhere(request.user, SILENCE)
        form = {name: request.POST.get(name, "") for name in (*PICKED, "matchers", "length", "reason")}
        try:
            made = _made(request, form)
        except ValidationError as error:
            errors = error.message_dict
        else:
            messages.success(request, f"Silenced until {zone.at(made.ends_at)}: {_hides(made)}.")
            return back(request, reverse("silences"))
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
        "pickers": [
            {"name": name, "options": known[name], "value": form.get(name, "")} for name in PICKED if known[name]
        ],
    }
    return render(request, "incidents/silences.html", context, status=422 if errors else 200)


@require_POST
def end_silence(request: HttpRequest, number: int) -> HttpResponse:
    silence = rights.row_for(request.user, SILENCE, SilenceRecord, pk=number)
    if silencing.end(silence, timezone.now(), request.user.get_username()):
        messages.success(request, "Ended. The next tick sends what still fires.")
    return HttpResponseRedirect(reverse("silences"))


def _hides(made: SilenceRecord) -> str:
    count = silencing.hidden(made)
    return f"it covers {count} open incident{'' if count == 1 else 's'}"


def _made(request: HttpRequest, form: dict[str, str]) -> SilenceRecord:
    now = timezone.now()
    matchers = [f"{name}={form[name]}" for name in PICKED if form[name]]
    matchers += [line.strip() for line in form["matchers"].replace(",", "\n").splitlines() if line.strip()]
    author, until = request.user.get_username(), end_of(form["length"], now)
    return silencing.add(matchers, now, until, author, form["reason"], rights.guard(request.user, SILENCE))


def _chosen(matchers: Sequence[str], known: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Each matcher in its picker, where there is one that has its value; the others as text."""
    chosen: dict[str, str] = {}
    left = []
    for text in matchers:
        name, _, value = text.partition("=")
        if name in PICKED and name not in chosen and value in known[name]:
            chosen[name] = value
        else:
            left.append(text)
    return chosen | {"matchers": "\n".join(left)}


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
