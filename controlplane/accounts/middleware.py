"""Who is asking: a session (AuthenticationMiddleware) or a bearer token; and nobody else gets in."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils.deprecation import MiddlewareMixin

from controlplane.accounts.bearer import bearer_text, find_token

MACHINE_PATHS = ("/api/", "/metrics")
"""Where clients are programs: they are answered 401 in JSON, and not sent to a login page."""


def unauthorized(detail: str) -> JsonResponse:
    return JsonResponse({"detail": detail}, status=401, headers={"WWW-Authenticate": 'Bearer realm="weir"'})


class BearerToken(MiddlewareMixin):
    """Sets `request.user` and `request.api_token` from `Authorization: Bearer …`; a wrong one is refused outright."""

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        text = bearer_text(header)
        token = find_token(text) if text else None
        if token is None:
            return unauthorized(
                "Unknown or expired token: send `Authorization: Bearer TOKEN` with one from /admin/accounts/apitoken/"
            )
        token.record_use()
        request.user = token.user
        request.api_token = token  # type: ignore[attr-defined]
        return None


class LoginRequired(LoginRequiredMiddleware):
    """Django's, with answers that programs and htmx understand."""

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        if request.path_info.startswith(MACHINE_PATHS):
            return unauthorized("Log in, or send `Authorization: Bearer TOKEN`")
        redirect: HttpResponseBase = super().handle_no_permission(request, view_func)
        if request.headers.get("HX-Request") == "true":
            # A fragment's redirect would put the login page into the fragment: send the whole page there.
            return JsonResponse({"detail": "Log in again"}, status=401, headers={"HX-Redirect": redirect["Location"]})
        return redirect
