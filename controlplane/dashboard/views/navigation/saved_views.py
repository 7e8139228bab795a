"""Saves a screen by its URL, for a person or under the name of a team, and removes it."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from controlplane.accounts import rights
from controlplane.accounts.core.actions import SAVE_VIEWS
from controlplane.accounts.core.rule import Owned
from controlplane.accounts.models import SavedView
from controlplane.dashboard import links
from controlplane.dashboard.views.common import back
from controlplane.fleet.models import Team

MAX_NAME_CHARS, MAX_PATH_CHARS = 100, 4000
MAX_VIEWS = 200
"""Of one person."""


@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """`name`, `next` (the screen's path and query), `team` and `pinned` of the form. A view of the same name is replaced."""
    name, path, team = (request.POST.get(field, "").strip() for field in ("name", "next", "team"))
    if why_not := _refusal(request, name, path, team):
        messages.error(request, f"Not saved: {why_not}.")
    else:
        SavedView.objects.update_or_create(
            user=_reader(request),
            team=team,
            name=name,
            defaults={"path": path, "pinned": bool(request.POST.get("pinned"))},
        )
        messages.success(request, f"Saved as “{name}”.")
    return back(request, reverse("overview"))


@require_POST
def remove_view(request: HttpRequest, number: int) -> HttpResponse:
    """Of one's own alone."""
    view = get_object_or_404(SavedView, pk=number, user=_reader(request))
    view.delete()
    messages.success(request, f"“{view.name}” is no longer saved.")
    return back(request, reverse("overview"))


def _reader(request: HttpRequest) -> User:
    """Every URL needs a session: nobody else comes here."""
    return cast(User, request.user)


def _refusal(request: HttpRequest, name: str, path: str, team: str) -> str:
    """Why a view cannot be saved, as a part of a sentence; empty where it can."""
    if not name or len(name) > MAX_NAME_CHARS:
        return f"give it a name of at most {MAX_NAME_CHARS} characters"
    if len(path) > MAX_PATH_CHARS or not path.startswith("/") or not url_has_allowed_host_and_scheme(path, None):
        return f"its URL is not one of Weir's, or longer than {MAX_PATH_CHARS} characters"
    if links.view_of(path) is None:
        return "there is no such screen"
    if team and not Team.objects.filter(name=team).exists():
        return f"there is no team “{team}”"
    if team:
        rights.require(request.user, SAVE_VIEWS, Owned.by(team))
    if SavedView.objects.filter(user=_reader(request)).count() >= MAX_VIEWS:
        return f"you have {MAX_VIEWS} views: remove some"
    return ""
