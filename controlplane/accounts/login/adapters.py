"""What allauth asks Weir: whose address a request has, who may enter, and how secrets of second factors lie in the database."""

from typing import Any

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.stagekit import clear_login
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.dispatch import Signal
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from controlplane.accounts.client_ip import client_ip
from controlplane.accounts.login import break_glass
from controlplane.core import keyring
from controlplane.core.sealed import anything_sealed

log = structlog.get_logger(__name__)

refused = Signal()
"""A log-in through a provider let nobody in. Its receivers get `provider`, `why` and `address`."""
UNSAID = ("account/messages/logged_in.txt", "account/messages/logged_out.txt")
"""The page shows it."""
SEALED = ("secret", "seed")
"""What is secret in the data of a second factor."""


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_ip(request) or "::"

    def pre_login(
        self, request: HttpRequest, user: Any, *, signal_kwargs: dict[str, Any] | None, **given: Any
    ) -> HttpResponseBase | None:
        """By a password, a passkey or a provider. Who got this far has proven who it is: nobody else learns which accounts there are."""
        if not (signal_kwargs or {}).get("sociallogin") and not break_glass.may_enter_here(user):
            clear_login(request)
            through = " or ".join(each.name for each in settings.CONFIG.providers)
            messages.error(request, f"Passwords are for emergencies here: log in through {through}.")
            return redirect("account_login")
        answer: HttpResponseBase | None = super().pre_login(request, user, signal_kwargs=signal_kwargs, **given)
        return answer

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Guesses of passwords are counted by axes, by account and address."""

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("mfa_index")

    def add_message(
        self, request: HttpRequest, level: int, message_template: str | None = None, *given: Any, **named: Any
    ) -> None:
        if message_template not in UNSAID:
            super().add_message(request, level, message_template, *given, **named)


class SecondFactors(DefaultMFAAdapter):  # type: ignore[misc]
    def encrypt(self, text: str) -> str:
        return keyring.to_seal(anything_sealed).seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return keyring.to_open().open(encrypted_text)

    def generate_authenticator_name(self, user: Any, type: Authenticator.Type) -> str:
        return "passkey"

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())


class Providers(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Whoever the provider lets in is a person here: without a role, who sees nothing."""
        return True

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> Any:
        """Who is given neither a name nor an address is called as the provider knows them."""
        if not data.get("username") and not data.get("email"):
            data = {**data, "username": sociallogin.account.uid}
        return super().populate_user(request, sociallogin, data)

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Nobody adds a provider to an account that is there: whoever could would enter as another."""
        if sociallogin.state.get("process") != "login":
            raise PermissionDenied

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        extra_context: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        why = (extra_context or {}).get("why") or str(error)
        refused.send(None, provider=provider.app.provider_id, why=why, address=client_ip(request))
        log.warning(
            "log-in through a provider failed",
            provider=provider.app.provider_id,
            error=why,
            why=repr(getattr(exception, "__cause__", None) or exception)[:300],
        )


def seal_again() -> int:
    """Encrypt the secrets of second factors with the first key; returns of how many. Raises SealError."""
    adapter = SecondFactors()
    rows = list(Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN).select_for_update())
    for row in rows:
        for name in SEALED:
            if isinstance(row.data.get(name), str):
                row.data[name] = adapter.encrypt(adapter.decrypt(row.data[name]))
        row.save(update_fields=["data"])
    return len(rows)
