"""Which time zone a request's page is in: that of `tz=` in its URL, else the one that the reader keeps, else UTC."""

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin
from django.views.decorators.http import require_POST

from controlplane.accounts.middleware import MACHINE_PATHS
from controlplane.core.formatting import instant
from controlplane.dashboard.core import zone
from controlplane.dashboard.views.common import back, is_fragment, trouble
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.parameters import single
from controlplane.telemetry.query.core.timerange import SECOND_NS

COOKIE = "weir_zone"
YEAR_S = 365 * 86_400
ENDS = ("from", "to")
UTC_PATHS = (*MACHINE_PATHS, "/admin/")


class ReaderZone(MiddlewareMixin):
    """Times without an offset, as calendar fields send them, become absolute ones in the URL, so that it means the same to everybody."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if request.path_info.startswith(UTC_PATHS) or request.path_info.endswith(".md"):
            return None
        try:
            chosen = choose(request)
            ends = absolute(request, chosen) if request.method in ("GET", "HEAD") else {}
        except BadQuestionError as error:
            _use(UTC)
            return trouble(request, 400, {"error": error, "default": request.path})
        if not ends:
            return None
        parameters = request.GET.copy()
        for name in ENDS:
            parameters.pop(f"{name}_at", None)
        for name, text in ends.items():
            parameters[name] = text
        url = f"{request.path}?{parameters.urlencode(safe=':')}"
        if not is_fragment(request):
            return HttpResponseRedirect(url)
        request.GET = parameters  # type: ignore[assignment]
        request.META["QUERY_STRING"] = parameters.urlencode()
        request.zone_url = url  # type: ignore[attr-defined]
        return None

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if url := getattr(request, "zone_url", ""):
            response["HX-Replace-Url"] = url
        _use(UTC)
        return response


def choose(request: HttpRequest) -> tzinfo:
    """Raises BadQuestionError for `tz=`; a cookie that is not understood counts as none."""
    text = single(dict(request.GET.lists()), "tz", "")
    if text:
        chosen: tzinfo = _utc_or(text)
    else:
        try:
            chosen = _utc_or(request.COOKIES.get(COOKIE, "UTC"))
        except BadQuestionError:
            chosen = UTC
    _use(chosen, of_url=bool(text))
    return chosen


def absolute(request: HttpRequest, chosen: tzinfo) -> dict[str, str]:
    """The ends of the range that the URL has without an offset. Raises BadQuestionError."""
    ends = {}
    for name in ENDS:
        picked = single(dict(request.GET.lists()), f"{name}_at", "")
        text = picked or request.GET.get(name, "").strip()
        if picked or (chosen is not UTC and zone.WITHOUT_OFFSET.fullmatch(text)):
            at = zone.read(name, text, chosen, later=name == "to")
            ends[name] = instant(int(at.timestamp()) * SECOND_NS)
    return ends


@require_POST
def keep(request: HttpRequest) -> HttpResponse:
    """Keeps the zone of a form for a reader's browser."""
    name = request.POST.get("zone", "").strip() or "UTC"
    response = back(request, "/")
    target = urlsplit(response["Location"])
    rest = [pair for pair in parse_qsl(target.query, keep_blank_values=True) if pair[0] != "tz"]
    response["Location"] = urlunsplit(target._replace(query=urlencode(rest, safe=":")))
    try:
        zone.named(name)
    except BadQuestionError as error:
        messages.error(request, f"{error}.")
    else:
        response.set_cookie(COOKIE, name, max_age=YEAR_S, samesite="Lax", secure=request.is_secure(), httponly=True)
    return response


def _utc_or(name: str) -> tzinfo:
    return UTC if name == "UTC" else zone.named(name)


def _use(chosen: tzinfo, *, of_url: bool = False) -> None:
    zone.use(chosen, of_url=of_url)
    timezone.activate(chosen)
