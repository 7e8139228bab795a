import re
from unittest.mock import ANY

import pytest
from allauth.account.views import PasswordResetView
from allauth.core.context import request_context
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.mail import EmailMessage
from django.core.management import call_command
from django.test import Client, RequestFactory
from pytest_django import Settings

from controlplane.accounts.login.adapters import SecondFactors
from controlplane.accounts.models import BreakGlass
from controlplane.audit.models import Entry
from controlplane.config.providers import Provider
from controlplane.config.secrets import new_secret
from controlplane.fleet.models import Team
from controlplane.incidents.models import ChangeRecord
from controlplane.incidents.notify.delivery.models import Delivery
from tests.support.incidents.notices import pagerduty
from tests.support.oidc import OidcProvider
from tests.support.web.people import logged_in, member

PASSWORD = "slow-river-under-bridge"


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def log_in(client: Client, password: str, **extra: str) -> int:
    return client.post("/login", {"login": "olga", "password": password, "next": "/admin/"}, **extra).status_code  # type: ignore[arg-type]


def test_the_right_password_leads_to_the_page_that_was_asked_for(outsider: Client, olga: User) -> None:
    assert log_in(outsider, "guess") == 200
    assert outsider.get("/admin/").status_code == 302
    response = outsider.post("/login", {"login": "olga", "password": PASSWORD, "next": "/admin/"})
    assert (response.status_code, response["Location"]) == (302, "/admin/")
    assert outsider.get("/admin/").status_code == 200


def test_guessing_is_locked_out_even_with_the_right_password(outsider: Client, olga: User, settings: Settings) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        log_in(outsider, "guess")
    response = outsider.post("/login", {"login": "olga", "password": PASSWORD})
    assert response.status_code == 429
    assert "Too many attempts" in response.content.decode()


def test_a_lock_out_of_one_address_lets_the_owner_in_from_another(
    outsider: Client, olga: User, settings: Settings
) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        log_in(outsider, "guess", REMOTE_ADDR="203.0.113.9")
    assert log_in(outsider, PASSWORD, REMOTE_ADDR="198.51.100.7") == 302


def test_the_admin_has_no_login_of_its_own(outsider: Client) -> None:
    response = outsider.get("/admin/login/?next=/admin/")
    assert response["Location"] == "/login?next=/admin/"


def test_logging_out_ends_the_session(owner: Client) -> None:
    owner.post("/logout")
    assert owner.get("/admin/")["Location"].startswith("/admin/login")


def test_htmx_is_sent_to_the_login_as_a_whole_page(outsider: Client) -> None:
    response = outsider.get("/incidents", headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert response["HX-Redirect"].startswith("/login?next=")


def test_pages_allow_scripts_from_our_own_server_alone(outsider: Client, owner: Client) -> None:
    for page in (outsider.get("/login"), owner.get("/silences"), owner.get("/admin/")):
        assert "default-src 'self'" in page["Content-Security-Policy"]
        assert "unsafe-eval" not in page["Content-Security-Policy"]


def test_a_new_password_ends_the_other_sessions_and_so_does_their_button(olga: User) -> None:
    here, there, further = Client(), Client(), Client()
    for client in (here, there, further):
        assert log_in(client, PASSWORD) == 302
    assert here.get("/account/sessions").content.decode().count("<tr>") == 4
    there.post("/account/sessions")
    assert [client.get("/silences").status_code for client in (here, there, further)] == [302, 200, 302]
    new = "a river under another bridge"
    assert log_in(here, PASSWORD) == 302
    there.post("/account/password", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert [client.get("/silences").status_code for client in (here, there)] == [302, 200]
    assert there.get("/account/sessions").content.decode().count("<tr>") == 2


def test_who_can_reset_a_password_is_said_where_there_is_no_mail(outsider: Client, olga: User) -> None:
    assert "An administrator can" in outsider.get("/login/reset").content.decode()
    assert outsider.post("/login/reset", {"email": "olga@example.com"}).status_code == 405


def test_a_link_by_mail_resets_a_password_once_and_says_to_nobody_who_is_there(
    olga: User, mailoutbox: list[EmailMessage]
) -> None:
    User.objects.update(email="olga@example.com")
    member = User.objects.create_user("pia", email="pia@example.com")  # logs in through a provider
    answers = {}
    for person in ("olga", "pia", "nobody"):
        request = RequestFactory().post("/login/reset", {"email": f"{person}@example.com"})
        request.session, request.user = SessionStore(), AnonymousUser()
        with request_context(request):
            answers[person] = PasswordResetView.as_view()(request)["Location"]
    assert set(answers.values()) == {"/login/reset/sent"} and [mail.to for mail in mailoutbox] == [["olga@example.com"]]
    assert not member.has_usable_password()
    link = re.search(r"http://testserver(/login/reset/\S+)", str(mailoutbox[0].body))
    assert link
    client, new = Client(), "a river under another bridge"
    form = client.get(link[1])["Location"]
    assert client.post(form, {"password1": new, "password2": new})["Location"] == "/login/reset/done"
    assert (log_in(Client(), PASSWORD), log_in(Client(), new)) == (200, 302)
    assert "used before" in Client().get(link[1]).content.decode()


def test_an_administrator_removes_lost_second_factors_and_ends_sessions(owner: Client) -> None:
    ruth = User.objects.create_superuser("ruth", password=PASSWORD)
    whole, half = Client(), Client()
    whole.post("/login", {"login": "ruth", "password": PASSWORD})
    TOTP.activate(ruth, "JBSWY3DPEHPK3PXP")
    assert "JBSWY3DPEHPK3PXP" not in str(Authenticator.objects.get().data)
    half.post("/login", {"login": "ruth", "password": PASSWORD})
    assert [client.get("/silences").status_code for client in (whole, half)] == [200, 302]
    for action in ("remove_second_factors", "end_sessions"):
        owner.post("/admin/auth/user/", {"action": action, "_selected_action": [ruth.pk]})
    assert not Authenticator.objects.exists() and whole.get("/silences").status_code == 302
    [removed] = Entry.objects.filter(kind="mfa.authenticator", action="deleted")
    assert removed.before == {"created_at": ANY, "data": "(hidden)", "id": ANY, "type": "totp", "user": ruth.pk}


def test_secrets_of_second_factors_are_sealed_again_with_a_new_key(olga: User, settings: Settings) -> None:
    old, new = new_secret(), new_secret()
    settings.CONFIG = settings.CONFIG.model_copy(update={"encryption_keys": [old]})
    TOTP.activate(olga, "JBSWY3DPEHPK3PXP")
    settings.CONFIG = settings.CONFIG.model_copy(update={"encryption_keys": [new, old]})
    call_command("seal_secrets")
    settings.CONFIG = settings.CONFIG.model_copy(update={"encryption_keys": [new]})
    assert SecondFactors().decrypt(Authenticator.objects.get().data["secret"]) == "JBSWY3DPEHPK3PXP"


def test_administrators_and_approvers_need_a_second_factor_where_it_is_wanted(
    owner: Client, reader: Client, settings: Settings
) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"require_second_factor": True})
    approver = logged_in(member("ann", "approver"))
    for client in (owner, approver):
        assert client.get("/silences")["Location"] == "/account?wanted=1"
        assert client.get("/silences", headers={"HX-Request": "true"})["HX-Redirect"] == "/account?wanted=1"
        assert "second factor" in client.get("/api/v1/incidents").json()["detail"]
        assert "Add one to go on" in client.get("/account?wanted=1").content.decode()
    assert reader.get("/silences").status_code == 200
    TOTP.activate(User.objects.get(username="ann"), "JBSWY3DPEHPK3PXP")
    assert approver.get("/silences").status_code == 200


def test_a_team_may_want_a_second_factor_of_its_people_alone(reader: Client) -> None:
    Team.objects.filter(name="serving").update(requires_second_factor=True)
    other = logged_in(member("sam", "owner", team="search"))
    assert reader.get("/silences")["Location"] == "/account?wanted=1" and other.get("/silences").status_code == 200
    TOTP.activate(User.objects.get(username="reader"), "JBSWY3DPEHPK3PXP")
    assert reader.get("/silences").status_code == 200


def test_breaking_the_glass_is_said_loudly_and_nobody_else_enters_by_a_password(db: None, settings: Settings) -> None:
    provider = Provider.model_validate(OidcProvider(1).settings())  # which is down
    settings.CONFIG = settings.CONFIG.model_copy(update={"oidc": [provider], "local_login": "break-glass"})
    for name in ("gus", "pia"):
        User.objects.create_superuser(name, password=PASSWORD)
    BreakGlass.objects.create(user=User.objects.get(username="gus"), reason="in the safe")
    pagerduty("all", 7)
    pia, gus = Client(), Client()
    refused = pia.post("/login", {"login": "pia", "password": PASSWORD}, follow=True).content.decode()
    assert "log in through npm" in refused and pia.get("/silences").status_code == 302
    assert "log in through npm" not in Client().post("/login", {"login": "pia", "password": "guess"}).content.decode()
    gus.post("/login", {"login": "gus", "password": PASSWORD})
    assert gus.get("/silences").status_code == 200
    assert Entry.objects.get(action="broke the glass").who == "gus"
    change = ChangeRecord.objects.get()
    assert "gus logged in by a break-glass account, from 127.0.0.1" in change.summary
    assert Delivery.objects.count() == 1
