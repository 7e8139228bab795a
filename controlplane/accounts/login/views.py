"""The way to a provider of OpenID Connect, and back."""

from collections.abc import Callable
from functools import wraps

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.providers.openid_connect import views
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_POST
from requests import RequestException

View = Callable[..., HttpResponseBase]


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
