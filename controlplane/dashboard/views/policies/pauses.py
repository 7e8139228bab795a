"""Pauses and overrides: those in force, those that are over, and the forms for new ones. Each has an end."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.core.actions import APPROVE_POLICIES, CHANGE_POLICIES, REJECT_POLICIES
from controlplane.dashboard.core import zone
from controlplane.dashboard.views.common import LENGTHS, end_of, page
from controlplane.dashboard.views.policies.frame import framed, standing_context
from controlplane.fleet.models import LLMModel, Pool, Tier
from controlplane.policy import queries
from controlplane.policy.models import Override, Pause
from controlplane.policy.revisions import pausing

FIELDS = ("what", "subject", "scope", "target", "pool", "replicas", "model", "tier", "step", "length", "reason")
MAX_OVER = 30


@page
def pauses(request: HttpRequest) -> HttpResponse:
    """`?scope=`, `target`, `pool`, `model`, `tier` fill the forms in. POST makes a pause (`what=pause`) or an override."""
    form = {name: request.GET.get(name, "") for name in FIELDS}
    errors: dict[str, list[str]] = {}
    if request.method == "POST":
        rights.require_anywhere(request.user, CHANGE_POLICIES)
        form = {name: request.POST.get(name, "").strip() for name in FIELDS}
        if form["subject"]:
            form["scope"], _, form["target"] = form["subject"].partition(":")
        try:
            made = _made(form, request)
        except ValidationError as error:
            errors = error.message_dict if hasattr(error, "error_dict") else {"": list(error.messages)}
        else:
            begun = (
                "It waits for another person's approval" if made.waits else f"In force until {zone.at(made.ends_at)}"
            )
            messages.success(request, f"{begun}: {made}.")
            return HttpResponseRedirect(reverse("pauses"))
    now = timezone.now()
    standing = queries.newest_decision()
    context: dict[str, Any] = standing_context(standing)
    names = {
        Pause.Scope.POLICY: [policy.metadata.name for policy in context["active"]],
        Pause.Scope.MODEL: list(LLMModel.objects.order_by("name").values_list("name", flat=True)),
        Pause.Scope.POOL: list(Pool.objects.order_by("name").values_list("name", flat=True)),
    }
    context |= {
        "now": now,
        "pauses": pausing.in_force(Pause).order_by("ends_at"),
        "overrides": pausing.in_force(Override).order_by("ends_at"),
        "over": over(now),
        "form": form,
        "errors": errors,
        "lengths": LENGTHS,
        "subjects": [(scope.value, scope.label, of_scope) for scope, of_scope in names.items()],
        "pools": names[Pause.Scope.POOL],
        "models": names[Pause.Scope.MODEL],
        "tiers": list(Tier.objects.order_by("priority").values_list("name", flat=True)),
    }
    return framed(request, "Pauses and overrides", "_pauses.html", context, status=422 if errors else 200)


def over(now: datetime) -> list[dict[str, Any]]:
    """Those that are over, the newest first."""
    ended = Q(ends_at__lte=now) | Q(ended_at__isnull=False)
    rows: list[dict[str, Any]] = []
    for table in (Pause, Override):
        latest = table._default_manager.filter(ended).order_by("-pk")[:MAX_OVER]
        rows += [{"row": row, "until": row.ended_at or row.ends_at} for row in latest]
    return sorted(rows, key=lambda each: each["until"], reverse=True)[:MAX_OVER]


@require_POST
def end_pause(request: HttpRequest, what: str, number: int) -> HttpResponse:
    """End a pause or an override now, or reject or withdraw an override that waits."""
    who, guard = request.user.get_username(), rights.guard(request.user, CHANGE_POLICIES)
    if what == "pause":
        row: Pause | Override = rights.row_for(request.user, CHANGE_POLICIES, Pause, pk=number)
    else:
        row = rights.row_for(request.user, REJECT_POLICIES, Override, pk=number)
    if pausing.end(row, who, guard):
        messages.success(
            request, f"Ended: {row}. " + ("It never counts." if row.waits else "The next tick decides without it.")
        )
    return HttpResponseRedirect(reverse("pauses"))


@require_POST
def approve_override(request: HttpRequest, number: int) -> HttpResponse:
    override = rights.row_for(request.user, APPROVE_POLICIES, Override, pk=number)
    try:
        pausing.approve(override, request.user.get_username())
    except ValidationError as error:
        messages.error(request, f"Not done: {'; '.join(error.messages)}")
    else:
        messages.success(request, f"Approved: {override}. The next tick decides with it.")
    return HttpResponseRedirect(reverse("pauses"))


def _made(form: dict[str, str], request: HttpRequest) -> Pause | Override:
    """Raises ValidationError, by field."""
    who, guard = request.user.get_username(), rights.guard(request.user, CHANGE_POLICIES)
    ends_at = end_of(form["length"], timezone.now())
    if form["what"] == "override":
        given: dict[str, Any] = {name: form[name] for name in ("pool", "model", "tier")}
        given |= {name: _whole(name, form[name]) for name in ("replicas", "step")}
        at_once = rights.is_administrator(request.user)
        return pausing.override(ends_at=ends_at, reason=form["reason"], who=who, guard=guard, at_once=at_once, **given)
    return pausing.pause(
        scope=form["scope"], target=form["target"], ends_at=ends_at, reason=form["reason"], who=who, guard=guard
    )


def _whole(name: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal():
        raise ValidationError({name: [f"{name}={text[:20]!r} is not a whole number: use 0 or more."]})
    return int(text[:9])
