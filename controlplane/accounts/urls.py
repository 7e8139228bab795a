"""Logging in and out, and what people do with their own log-in: allauth's views, in Weir's frame. What has no URL here is switched off."""

from typing import Any

from allauth.account import views as account
from allauth.mfa.base import views as factor
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as passkey
from allauth.usersessions import views as sessions
from django.conf import settings
from django.urls import path, register_converter, reverse_lazy
from django.urls.converters import StringConverter
from django.views.generic import TemplateView

from controlplane.accounts.login import saml_views
from controlplane.accounts.login.views import from_provider, logged_out_there, to_provider

ENTRANCE, FRAME = "accounts/entrance.html", "accounts/own.html"
TO_OWN = reverse_lazy("mfa_index")
CAN_MAIL = bool(settings.CONFIG.mail_url)


class Base36Converter(StringConverter):
    """A person in a link that resets a password."""

    regex = "[0-9A-Za-z]+"


register_converter(Base36Converter, "base36")


def page(view: Any, title: str, button: str = "", frame: str = FRAME, text: str = "", **given: Any) -> Any:
    """The view with the one template of forms."""
    said = {"frame": frame, "title": title, "button": button, "text": text}
    return view.as_view(template_name="accounts/form.html", extra_context=said, **given)


entrance = [
    path(
        "login",
        account.LoginView.as_view(template_name="accounts/login.html", extra_context={"providers": settings.CONFIG.providers}),
        name="account_login",
    ),
    path("login/through/<slug:provider_id>", to_provider, name="openid_connect_login"),
    path("login/through/<slug:provider_id>/back", from_provider, name="openid_connect_callback"),
    path("login/through/<slug:provider_id>/ended", logged_out_there, name="openid_connect_ended"),
    path("login/saml/<slug:provider_id>", saml_views.begin, name="saml_login"),
    path("login/saml/<slug:provider_id>/back", saml_views.back, name="saml_acs"),
    path("login/saml/<slug:provider_id>/done", saml_views.finish, name="saml_finish_acs"),
    path("login/saml/<slug:provider_id>/log-out", saml_views.log_out, name="saml_sls"),
    path("login/saml/<slug:provider_id>/metadata", saml_views.metadata, name="saml_metadata"),
    path(
        "login/cancelled",
        page(account.AccountInactiveView, "No log-in", "", ENTRANCE, "The log-in was ended at the provider. Nothing has changed."),
        name="socialaccount_login_cancelled",
    ),
    path("login/second-factor", factor.AuthenticateView.as_view(template_name="accounts/second_factor.html"), name="mfa_authenticate"),
    path("login/passkey", passkey.LoginWebAuthnView.as_view(), name="mfa_login_webauthn"),
    path("logout", account.LogoutView.as_view(http_method_names=["post"]), name="account_logout"),
    path(
        "login/closed",
        page(account.AccountInactiveView, "No log-in", "", ENTRANCE, "This account is switched off. An administrator can switch it on."),
        name="account_inactive",
    ),
    path(
        "login/reset",
        page(account.PasswordResetView, "Reset the password", "Send a link", ENTRANCE)
        if CAN_MAIL
        else page(
            account.PasswordResetView, "Reset the password", frame=ENTRANCE, http_method_names=["get", "head"],
            text="Weir has no mail server. An administrator can give you a new password in the admin, under People → Users; "
            "whoever has the machine can with: manage.py changepassword NAME",
        ),
        name="account_reset_password",
    ),
    path(
        "login/reset/sent",
        page(
            account.PasswordResetDoneView, "Look at your mail", frame=ENTRANCE,
            text="If somebody with this address has a password here, a link is on its way. It works once.",
        ),
        name="account_reset_password_done",
    ),
    path(
        "login/reset/<base36:uidb36>-<str:key>",
        page(account.PasswordResetFromKeyView, "A new password", "Keep it", ENTRANCE),
        name="account_reset_password_from_key",
    ),
    path(
        "login/reset/done",
        page(account.PasswordResetFromKeyDoneView, "The password is new", frame=ENTRANCE, text="Log in with it."),
        name="account_reset_password_from_key_done",
    ),
]  # fmt: skip
own = [
    path("account", factor.IndexView.as_view(template_name="accounts/account.html"), name="mfa_index"),
    path("account/password", page(account.PasswordChangeView, "Change the password", "Change it"), name="account_change_password"),
    path(
        "account/password/none",
        page(TemplateView, "No password", text="You have no password here: you log in through a provider, which keeps it."),
        name="account_set_password",
    ),
    path("account/sessions", sessions.ListUserSessionsView.as_view(template_name="accounts/sessions.html"), name="usersessions_list"),
    path("account/confirm", page(account.ReauthenticateView, "Confirm that it is you", "Confirm"), name="account_reauthenticate"),
    path("account/confirm/code", page(factor.ReauthenticateView, "Confirm that it is you", "Confirm"), name="mfa_reauthenticate"),
    path(
        "account/confirm/passkey",
        passkey.ReauthenticateWebAuthnView.as_view(template_name="accounts/confirm_passkey.html"),
        name="mfa_reauthenticate_webauthn",
    ),
    path("account/app", totp.ActivateTOTPView.as_view(template_name="accounts/app.html"), name="mfa_activate_totp"),
    path(
        "account/app/remove",
        page(
            totp.DeactivateTOTPView, "Remove the authenticator app", "Remove it",
            text="Its codes are refused from then on. Without another second factor your password alone lets you in.",
        ),
        name="mfa_deactivate_totp",
    ),
    path("account/passkeys/add", passkey.AddWebAuthnView.as_view(template_name="accounts/passkey.html"), name="mfa_add_webauthn"),
    path(
        "account/passkeys/<int:pk>/remove",
        page(passkey.RemoveWebAuthnView, "Remove the passkey", "Remove it", success_url=TO_OWN, text="It is refused from then on."),
        name="mfa_remove_webauthn",
    ),
    path("account/codes", codes.ViewRecoveryCodesView.as_view(template_name="accounts/codes.html"), name="mfa_view_recovery_codes"),
    path(
        "account/codes/new",
        page(codes.GenerateRecoveryCodesView, "New recovery codes", "Make them", text="The ones that you have are refused from then on."),
        name="mfa_generate_recovery_codes",
    ),
]  # fmt: skip
urlpatterns = [*entrance, *own]
