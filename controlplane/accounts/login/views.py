"""The way to a provider of OpenID Connect and back, and what it says by itself."""

import time
from collections.abc import Callable
from functools import wraps

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.providers.openid_connect import views
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from requests import RequestException

from controlplane.accounts.core.throttle import Throttle
from controlplane.accounts.login import back_channel

View = Callable[..., HttpResponseBase]
MAX_LOGOUTS_A_MINUTE = 120
_throttle = Throttle()


def _said_where_it_is_down(view: View) -> View:
    @wraps(view)
    def wrapped(request: HttpRequest, provider_id: str) -> HttpResponseBase:
        try:
            return view(request, provider_id)
        except RequestException as error:
            provider = get_adapter().get_provider(request, provider_id)
            answer: HttpResponseBase = render_authentication_error(request, provider, exception=error)
            return answer

    return wrapped


to_provider = require_POST(_said_where_it_is_down(views.login))
from_provider = _said_where_it_is_down(views.callback)


@csrf_exempt
@login_not_required
@require_POST
def logged_out_there(request: HttpRequest, provider_id: str) -> HttpResponse:
    """A provider says that it has logged somebody out (OpenID Connect Back-Channel Logout 1.0): all sessions here that it let in end."""
    wait_s = _throttle.wait_s(0, MAX_LOGOUTS_A_MINUTE, time.monotonic())
    status, answer = 200, ""
    if wait_s:
        status, answer = 429, "too many of them: send more slowly"
    else:
        try:
            back_channel.log_out(provider_id, request.POST.get("logout_token", ""))
        except back_channel.BadLogoutError as error:
            status, answer = 400, str(error)
    said = JsonResponse({"error": "invalid_request", "error_description": answer} if answer else {}, status=status)
    said["Cache-Control"] = "no-store"
    return said
