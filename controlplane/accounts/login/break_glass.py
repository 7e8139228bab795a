"""Accounts for the day when no provider answers."""

from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from django.conf import settings
from django.dispatch import Signal
from django.http import HttpRequest

from controlplane.accounts.models import BreakGlass

broken = Signal()
"""Somebody logged in here by such an account, where there is a provider. Its receivers get `user`."""


def may_enter_here(user: Any) -> bool:
    """Whether a password or passkey of this installation lets the person in."""
    return settings.CONFIG.local_login == "everybody" or BreakGlass.objects.filter(user=user).exists()


def is_through_a_provider(request: HttpRequest, user: Any) -> bool:
    return any(record["method"] == "socialaccount" for record in get_authentication_records(request, user))


def watch(sender: Any, request: HttpRequest | None, user: Any, **_: Any) -> None:
    """After each log-in."""
    if (
        settings.CONFIG.providers
        and request is not None
        and BreakGlass.objects.filter(user=user).exists()
        and not is_through_a_provider(request, user)
    ):
        broken.send(None, user=user)
