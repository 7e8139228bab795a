"""Lets in who has a session (AuthenticationMiddleware) or a bearer token, and a role; and nobody else."""

import re
import time
from collections.abc import Callable
from math import ceil
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

from controlplane.accounts import rights, second_factor
from controlplane.accounts.bearer import bearer_text, find_token
from controlplane.accounts.client_ip import client_ip
from controlplane.accounts.core.actions import SEE_TENANT, VIEW
from controlplane.accounts.core.throttle import Throttle
from controlplane.accounts.login import provider
from controlplane.accounts.models import TokenUser
from controlplane.core.acting import Actor, acting
from controlplane.core.problems import problem, unauthorized
from inference.contract.metrics_access import has_metrics_token

METRICS_PATH = "/metrics"
MACHINE_PATHS = ("/api/", METRICS_PATH)
"""Here clients are programs: they get 401 in JSON instead of a redirect to the login page."""
OF_TENANTS = re.compile(r"/tenants(/.*)?|/api/v1/tenants/.*|/account(/.*)?|/zone")
"""What a tenant's people may open. Whose figures they see there, the views ask."""


_throttle = Throttle()
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class BearerToken(MiddlewareMixin):
    """Sets `request.user` and `request.api_token` from `Authorization: Bearer …`; a wrong token is refused.

    Tokens are for programs: they open the API and the metrics, but neither pages nor the admin.
    """

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        header = request.headers.get("Authorization")
        if header is None or not request.path_info.startswith(MACHINE_PATHS):
            return None
        is_metrics = request.path_info == METRICS_PATH
        if is_metrics and has_metrics_token(settings.CONFIG.metrics_token, header.encode()):
            request.may_read_metrics = True  # type: ignore[attr-defined]
            return None
        text = bearer_text(header)
        token = find_token(text) if text else None
        if token is None:
            return unauthorized(
                "Unknown or expired token: send `Authorization: Bearer TOKEN` with one from /admin/accounts/apitoken/"
            )
        per_minute = settings.CONFIG.api_requests_per_minute
        wait_s = _throttle.wait_s(token.pk, per_minute, time.monotonic()) if per_minute and not is_metrics else 0.0
        if wait_s:
            detail = f"This token sends more than {per_minute} requests a minute (WEIR_API_REQUESTS_PER_MINUTE): send more slowly"
            return problem(429, "Too many requests", detail, {"Retry-After": str(ceil(wait_s))})
        token.record_use()
        request.user = TokenUser.of(token)
        request.api_token = token  # type: ignore[attr-defined]
        return None


class LoginRequired(LoginRequiredMiddleware):
    """Django's middleware, with answers that programs and htmx understand."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if getattr(request, "may_read_metrics", False):
            return None
        wants_login = getattr(view_func, "login_required", True)
        if wants_login and request.user.is_authenticated and provider.login_is_over(request):
            logout(request)
        answer: HttpResponseBase | None = super().process_view(request, view_func, view_args, view_kwargs)
        return self._unread(request) if answer is None and wants_login else answer

    @staticmethod
    def _unread(request: HttpRequest) -> HttpResponseBase | None:
        """Nobody reads without a role. What a token changes, it may without the scope to read."""
        match = request.resolver_match
        changes = isinstance(request.user, TokenUser) and request.method not in SAFE_METHODS
        if changes or (match is not None and match.url_name == "account_logout"):
            return None
        of_tenants = rights.may_anywhere(request.user, SEE_TENANT)
        sentence = "" if of_tenants and OF_TENANTS.fullmatch(request.path_info) else rights.why_not(request.user, VIEW)
        if sentence and of_tenants and request.path_info == "/":
            return redirect("tenants")
        if sentence and request.path_info.startswith(MACHINE_PATHS):
            return problem(403, "Not allowed", sentence)
        if sentence:
            raise PermissionDenied(sentence)
        if not isinstance(request.user, TokenUser) and second_factor.is_missing(request):
            return second_factor.refusal(request, request.path_info.startswith(MACHINE_PATHS))
        return None

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        if request.path_info.startswith(MACHINE_PATHS):
            return unauthorized()
        redirect: HttpResponseBase = super().handle_no_permission(request, view_func)
        if request.headers.get("HX-Request") == "true":
            # A redirect would put the login page into the fragment. This header makes htmx load the whole page.
            return JsonResponse({"detail": "Log in again"}, status=401, headers={"HX-Redirect": redirect["Location"]})
        return redirect


@sync_and_async_middleware
def acting_user(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """What a request does is done by its user (`controlplane.core.acting`)."""

    def who(request: HttpRequest) -> Callable[[], Actor]:
        token = getattr(request, "api_token", None)
        place = "admin" if request.path_info.startswith("/admin/") else "page"
        via = f"api, token {token.name}" if token else "api" if request.path_info.startswith("/api/") else place
        return lambda: Actor(request.user.get_username(), via, client_ip(request))

    async def served(request: HttpRequest) -> HttpResponseBase:
        with acting(who(request)):
            answer: HttpResponseBase = await get_response(request)
            return answer

    def served_in_turn(request: HttpRequest) -> HttpResponseBase:
        with acting(who(request)):
            answer: HttpResponseBase = get_response(request)
            return answer

    return served if iscoroutinefunction(get_response) else served_in_turn
