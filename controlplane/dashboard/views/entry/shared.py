"""Links that show one view to whoever has them: without a log-in, without controls that change anything, until they end."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.shortcuts import render
from django.urls import resolve, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from controlplane.accounts.models import SharedLink
from controlplane.dashboard.core import zone
from controlplane.dashboard.links import is_page
from controlplane.dashboard.views.common import back, end_of
from controlplane.dashboard.views.navigation.zone import choose

LENGTHS = ("1d", "7d", "30d")
MAX_PATH = 4_000
ENDED = "This link has ended, or was withdrawn. Ask whoever sent it for a new one."


@require_POST
def share(request: HttpRequest) -> HttpResponse:
    """Make a link to `path` that ends after `length`."""
    path, length = request.POST.get("path", ""), request.POST.get("length", "")
    if len(path) > MAX_PATH or not is_page(path) or length not in LENGTHS:
        return HttpResponseBadRequest("Share a page of Weir, for 1d, 7d or 30d.\n", content_type="text/plain")
    if zone.said() != "UTC" and "tz" not in QueryDict(path.partition("?")[2]):  # whoever reads it sees the same times
        path += f"{'&' if '?' in path else '?'}{urlencode({'tz': zone.said()})}"
    link = SharedLink.objects.create(
        path=path, author=request.user.get_username(), ends_at=end_of(length, timezone.now())
    )
    url = request.build_absolute_uri(reverse("shared", args=[link.text]))
    messages.success(request, f"Whoever has this link can read this view until {zone.at(link.ends_at)}: {url}")
    return back(request, path)


@login_not_required
@require_safe
def shared(request: HttpRequest, text: str) -> HttpResponse:
    """The view of a link as it is now, to somebody who has no rights."""
    link = SharedLink.read(text, timezone.now())
    if link is None:
        return render(request, "404.html", {"why": ENDED}, status=404)
    path, _, query = link.path.partition("?")
    match = resolve(path)
    request.user, request.path, request.path_info = AnonymousUser(), path, path
    request.GET = QueryDict(query)
    request.META["QUERY_STRING"] = query
    request.resolver_match = match
    choose(request)
    request.shared_until = link.ends_at  # type: ignore[attr-defined]
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    response["Referrer-Policy"] = "no-referrer"
    response["X-Robots-Tag"] = "noindex"
    return response
