"""Whether a session lacks the second factor that its person must have."""

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse

from controlplane.accounts import rights
from controlplane.accounts.core.actions import ADMINISTER, APPROVE_POLICIES
from controlplane.accounts.login.break_glass import is_through_a_provider
from controlplane.core.problems import problem

OWN = "/account"
"""Here a second factor is added."""
WANTED = "You need a second factor here: add one under Your log-in."


def is_missing(request: HttpRequest) -> bool:
    """Of whoever logged in through a provider, that is the provider's matter."""
    user = request.user
    by_setting = settings.CONFIG.require_second_factor and (
        rights.may(user, ADMINISTER) or rights.may_anywhere(user, APPROVE_POLICIES)
    )
    return (
        (by_setting or rights.person_of(user).needs_second_factor)
        and not request.path_info.startswith(OWN)
        and not is_through_a_provider(request, user)
        and not is_mfa_enabled(user)
    )


def refusal(request: HttpRequest, is_machine: bool) -> HttpResponseBase:
    where = f"{reverse('mfa_index')}?wanted=1"
    if is_machine:
        return problem(403, "Not allowed", WANTED)
    if request.headers.get("HX-Request") == "true":
        return JsonResponse({"detail": WANTED}, status=403, headers={"HX-Redirect": where})
    return redirect(where)
