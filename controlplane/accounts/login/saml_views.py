"""The way to a provider of SAML 2.0 and back. `saml` is imported only where WEIR_SAML names one: its libraries are large."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps

from allauth.account.utils import get_next_redirect_url
from allauth.core import ratelimit
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import complete_social_login, render_authentication_error
from allauth.socialaccount.internal.statekit import unstash_state
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.sessions import LoginSession
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.sessions.backends.base import CreateError
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from controlplane.accounts.login import back_channel
from controlplane.accounts.login.provider import provider_of
from controlplane.config.providers import SamlProvider

View = Callable[[HttpRequest, SamlProvider], HttpResponseBase]
CARRIED, CARRIED_FOR_S = "weir_saml", 60
"""The cookie of a verified answer on its way to the session: the provider's page sends it without the session's cookie (SameSite)."""


def _of_a_provider(view: View) -> Callable[[HttpRequest, str], HttpResponseBase]:
    """A view for who is not logged in yet. It answers 404 where there is no such provider, and says why nobody is logged in."""

    @login_not_required
    @wraps(view)
    def wrapped(request: HttpRequest, provider_id: str) -> HttpResponseBase:
        provider = provider_of(provider_id)
        if not isinstance(provider, SamlProvider):
            raise Http404
        from controlplane.accounts.login.saml import RefusedError

        try:
            return view(request, provider)
        except (RefusedError, RequestException) as error:
            there = get_adapter().get_provider(request, provider_id)
            said = {"why": str(error) if isinstance(error, RefusedError) else ""}
            answer: HttpResponseBase = render_authentication_error(request, there, exception=error, extra_context=said)
            return answer

    return wrapped


@require_POST
@_of_a_provider
def begin(request: HttpRequest, provider: SamlProvider) -> HttpResponseBase:
    from controlplane.accounts.login import saml

    url, number = saml.request(provider, saml.weir_of(request, provider))
    there = get_adapter().get_provider(request, provider.id)
    there.stash_redirect_state(request, "login", get_next_redirect_url(request), state_id=number)
    return HttpResponseRedirect(url)


@csrf_exempt
@require_POST
@_of_a_provider
def back(request: HttpRequest, provider: SamlProvider) -> HttpResponseBase:
    """The answer. What does not hold is refused here and stored nowhere."""
    from controlplane.accounts.login import saml

    too_many: HttpResponseBase | None = ratelimit.consume_or_429(request, action="login")
    if too_many is not None:
        return too_many
    said = saml.read(provider, saml.weir_of(request, provider), request.POST.get("SAMLResponse", ""))
    answer = redirect("saml_finish_acs", provider.id)
    carried = LoginSession(request, CARRIED, CARRIED)
    carried.store.set_expiry(CARRIED_FOR_S)
    carried.store[provider.id] = asdict(said)
    carried.save(answer)
    return answer


@require_GET
@_of_a_provider
def finish(request: HttpRequest, provider: SamlProvider) -> HttpResponseBase:
    """The log-in, if this browser began it: each request is answered once, and nobody is logged in without one."""
    from controlplane.accounts.login import saml

    carried = LoginSession(request, CARRIED, CARRIED)
    said = carried.store.get(provider.id)
    carried.delete()
    assertion = saml.Assertion(**said) if said else None
    state = None
    if assertion and assertion.request_id:
        state = unstash_state(request, state_id=assertion.request_id, provider_id=provider.id)
    elif assertion and provider.begins_there and _is_first(provider.id, assertion.id):
        state = {"process": AuthProcess.LOGIN}
    if assertion is None or state is None:
        raise saml.RefusedError("This browser did not begin that log-in, or has ended it.")
    try:
        login = get_adapter().get_provider(request, provider.id).sociallogin_from_response(request, assertion)
    except (ValueError, ImproperlyConfigured) as error:  # no name of the person, or one that is too long
        raise saml.RefusedError("It names nobody whom Weir can know again.") from error
    login.state = state
    answer: HttpResponseBase = complete_social_login(request, login)
    if assertion.until:
        request.session.set_expiry(min(settings.SESSION_COOKIE_AGE, max(1, int(assertion.until - time.time()))))
    return answer


def _is_first(provider_id: str, assertion_id: str) -> bool:
    """Kept with the sessions until no such answer can be taken any more."""
    from controlplane.accounts.login.saml import SEEN_FOR_S

    seen = SessionStore(hashlib.sha256(f"{provider_id} {assertion_id}".encode()).hexdigest()[:32])
    try:
        seen.save(must_create=True)
    except CreateError:
        return False
    seen.set_expiry(SEEN_FOR_S)
    seen.save()
    return True


@require_GET
@_of_a_provider
def log_out(request: HttpRequest, provider: SamlProvider) -> HttpResponseBase:
    """The provider logs somebody out, through the person's own browser: all sessions here that it let in end."""
    from controlplane.accounts.login import saml

    subject, where = saml.log_out(provider, saml.weir_of(request, provider), request.GET)
    back_channel.end_sessions(provider.id, subject)
    return HttpResponseRedirect(where)


@require_GET
@_of_a_provider
def metadata(request: HttpRequest, provider: SamlProvider) -> HttpResponse:
    from controlplane.accounts.login import saml

    text = saml.metadata(provider, saml.weir_of(request, provider))
    return HttpResponse(text, content_type="application/samlmetadata+xml")
