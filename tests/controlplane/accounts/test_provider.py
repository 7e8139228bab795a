"""Log-in through a real provider of OpenID Connect: groups become roles, and what the provider takes is gone."""

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urljoin, urlsplit

import jwt
import pytest
import requests
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import ValidationError as Refused
from django.test import Client
from django.utils import timezone
from pydantic import ValidationError
from pytest_django import Settings

from controlplane.accounts.login.provider import Tokens, _refreshed, adapter_of
from controlplane.accounts.models import ApiToken, GroupMapping, ProviderAccount, ProviderTokens
from controlplane.audit.models import Entry
from controlplane.config import Config
from controlplane.config.providers import Provider
from controlplane.fleet.models import Team, Tenant, Tier
from deploy.local.ports import free_port
from tests.support.oidc import OidcProvider
from tests.support.start import Start

pytestmark = [pytest.mark.django_db, pytest.mark.processes]


@pytest.fixture(scope="module")
def running(start_once: Start) -> OidcProvider:
    return OidcProvider(free_port()).start(start_once, "http://testserver")


@pytest.fixture
def npm(running: OidcProvider, settings: Settings) -> Iterator[OidcProvider]:
    running.knows(vera=["llm-owners", "staff"], rita=["llm-admins"])
    use(settings, running)
    serving = Team.objects.create(name="serving")
    for group, role, team in (
        ("llm-owners", "owner", serving),
        ("staff", "viewer", serving),
        ("llm-admins", "administrator", None),
    ):
        GroupMapping.objects.create(provider="npm", group=group, role=role, team=team)
    yield running
    cache.clear()


def use(settings: Settings, running: OidcProvider, reread_s: float = 0, **more: object) -> None:
    provider = Provider.model_validate(running.settings(**more))
    settings.CONFIG = settings.CONFIG.model_copy(update={"oidc": [provider], "oidc_reread_s": reread_s})
    app = {"provider_id": "npm", "name": "npm", "client_id": "weir", "secret": provider.secret}
    app_settings = {"server_url": provider.issuer, "scope": provider.scopes.split()}
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [{**app, "settings": app_settings}]}
    }


def log_in(npm: OidcProvider, name: str, to: str = "/silences") -> tuple[Client, str]:
    """As a browser would: to the provider, and back. Where it ends."""
    npm.has_present(name)
    client = Client()
    at = client.post("/login/through/npm", {"next": to})["Location"]
    with requests.Session() as browser:
        while not at.startswith("http://testserver/"):
            answer = browser.get(at, allow_redirects=False, timeout=10)
            at = urljoin(at, answer.headers["Location"])
    back = urlsplit(at)
    answer = client.get(f"{back.path}?{back.query}")
    return client, answer["Location"] if answer.status_code == 302 else str(answer.status_code)


def status(client: Client, path: str = "/silences") -> int:
    return client.get(path).status_code


def test_groups_are_roles_and_their_removal_takes_them_away_at_the_next_request(npm: OidcProvider) -> None:
    client, at = log_in(npm, "vera")
    assert at == "/silences" and status(client) == 200
    vera = User.objects.get(username="vera")
    assert not vera.has_usable_password() and not vera.memberships.exists()
    assert client.post("/silences", {"owner": "serving", "length": "1h", "reason": "test"}).status_code == 302
    npm.knows(vera=["staff"])
    assert status(client) == 200
    assert client.post("/silences", {"owner": "serving", "length": "1h", "reason": "test"}).status_code == 403
    npm.knows(vera=[])
    assert status(client) == 403
    changed = Entry.objects.filter(kind="accounts.provideraccount", action="changed").order_by("number")
    assert [(entry.via, entry.before["groups"], entry.after["groups"]) for entry in changed] == [
        ("provider npm", ["llm-owners", "staff"], ["staff"]), ("provider npm", ["staff"], []),
    ]  # fmt: skip


def test_a_group_is_a_tenants_people_as_long_as_the_provider_says_so(npm: OidcProvider) -> None:
    acme = Tenant.objects.create(name="acme", tier=Tier.objects.create(name="batch"))
    mapping = GroupMapping(provider="npm", group="acme-people", role="tenant", tenant=acme)
    mapping.full_clean()
    mapping.save()
    npm.knows(vera=["acme-people"])
    client, _ = log_in(npm, "vera", to="/tenants")
    assert client.get("/tenants")["Location"] == "/tenants/acme" and status(client) == 403
    npm.knows(vera=[])
    assert status(client, "/tenants") == 403
    for role, team, tenant in (("tenant", None, None), ("viewer", None, acme), ("tenant", Team.objects.get(), acme)):
        with pytest.raises(Refused, match="Name"):
            GroupMapping(provider="npm", group="x", role=role, team=team, tenant=tenant).full_clean()


def test_administrators_are_such_as_long_as_the_group_says_so(npm: OidcProvider) -> None:
    client, at = log_in(npm, "rita", to="https://evil.example/")
    assert at == "/" and status(client, "/audit") == 200 and status(client, "/admin/auth/user/") == 200
    GroupMapping.objects.filter(role="administrator").delete()
    assert status(client, "/audit") == 403


@pytest.mark.parametrize("groups_from", ["userinfo", "id_token"])
def test_who_is_gone_at_the_provider_is_logged_out_at_the_next_request(
    npm: OidcProvider, settings: Settings, groups_from: str
) -> None:
    use(settings, npm, groups_from=groups_from)
    client, _ = log_in(npm, "vera")
    _, text = ApiToken.objects.issue(User.objects.get(username="vera"), "robot")
    robot = {"Authorization": f"Bearer {text}"}
    npm.knows(vera=["staff"])
    assert status(client) == 200
    assert ProviderAccount.objects.get().groups == ["staff"]
    npm.knows(rita=[])
    assert client.get("/silences")["Location"].startswith("/login?next=")
    assert client.get("/api/v1/incidents", headers=robot).status_code == 403
    npm.knows(vera=["staff"])
    assert client.get("/api/v1/incidents", headers=robot).status_code == 403  # until the person has logged in again
    assert status(log_in(npm, "vera")[0]) == 200
    assert client.get("/api/v1/incidents", headers=robot).status_code == 200


def test_while_the_provider_is_silent_its_last_word_counts_and_not_for_ever(
    npm: OidcProvider, settings: Settings
) -> None:
    client, _ = log_in(npm, "vera")
    nobody = OidcProvider(free_port())
    cache.clear()
    use(settings, nobody)
    assert status(client) == 200
    assert client.post("/login/through/npm").status_code == 401  # and says so
    ProviderTokens.objects.update(read_at=timezone.now() - timedelta(seconds=settings.CONFIG.oidc_outage_s + 1))
    assert client.get("/silences")["Location"].startswith("/login?next=")


def test_tokens_of_the_provider_lie_sealed_and_requests_at_once_ask_once(npm: OidcProvider, settings: Settings) -> None:
    client, _ = log_in(npm, "vera")
    held = json.loads(ProviderTokens.objects.get().secret)
    assert held["access"] and held["refresh"] and held["access"] not in ProviderTokens.objects.get().sealed
    ProviderTokens.objects.update(claimed_until=timezone.now() + timedelta(minutes=1))
    npm.knows(vera=[])
    assert status(client) == 200  # another request asks
    ProviderTokens.objects.update(claimed_until=None)
    assert status(client) == 403


def test_a_name_that_is_taken_is_not_entered_and_no_account_gets_a_provider(npm: OidcProvider) -> None:
    User.objects.create_superuser("vera", email="vera@example.com")
    client, at = log_in(npm, "vera")
    assert at == "/silences" and status(client, "/audit") == 403
    assert ProviderAccount.objects.get().user.username != "vera"
    npm.has_present("rita")
    assert Client().post("/login/through/npm?process=connect").status_code in (302, 403)
    assert ProviderAccount.objects.count() == 1


def test_a_log_in_that_is_ended_at_the_provider_enters_nobody(npm: OidcProvider) -> None:
    client, at = log_in(npm, "stranger")
    assert at == "/login/cancelled" and status(client) == 302
    assert client.get("/login/through/npm/back?code=x&state=y").status_code == 401
    assert client.get("/login/through/npm").status_code == 405


def ended(token: str, provider: str = "npm", **claims: object) -> tuple[int, str]:
    """Send a log-out, with a key of nobody's where claims are given."""
    if claims:
        token = jwt.encode({**jwt.decode(token, options={"verify_signature": False}), **claims}, "k" * 32, "HS256")
    answer = Client().post(f"/login/through/{provider}/ended", {"logout_token": token})
    return answer.status_code, answer.json().get("error_description", "")


def test_a_log_out_at_the_provider_ends_all_sessions_here_at_once(npm: OidcProvider, settings: Settings) -> None:
    use(settings, npm, reread_s=3600)
    first, second = log_in(npm, "vera")[0], log_in(npm, "vera")[0]
    rita, _ = log_in(npm, "rita")
    assert ended(npm.logout_of("nobody")) == (200, "") and status(first) == 200
    token = npm.logout_of("vera")
    assert ended(token) == (200, "")
    assert (status(first), status(second), status(rita)) == (302, 302, 200)
    assert ProviderAccount.objects.get(subject="vera").refused, "tokens of hers have no groups any more"
    again, _ = log_in(npm, "vera")
    assert ended(token) == (400, "it cannot be verified"), "it was used"
    assert (status(again), status(first)) == (200, 302)


def test_nothing_but_a_log_out_of_the_provider_logs_anybody_out(npm: OidcProvider, settings: Settings) -> None:
    use(settings, npm, reread_s=3600)
    vera, _ = log_in(npm, "vera")
    token = npm.logout_of("vera")
    head, body, signature = token.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    assert ended(token, "other") == (400, "there is no such provider here")
    for wrong in ("", "x", f"{none}.{body}.", f"{head}.{body[:-8]}AAAAAAAA.{signature}"):
        assert ended(wrong)[0] == 400
    assert ended(token, jti="1")[1].startswith("its algorithm is none of RS256")
    there = Provider.model_validate(npm.settings())
    kept = Tokens(**json.loads(ProviderTokens.objects.get(account__subject="vera").secret))
    _, id_token = _refreshed(adapter_of(there), there, kept)
    assert ended(id_token) == (400, "it is no logout token"), "though the provider signed it"
    assert status(vera) == 200


@pytest.mark.parametrize(
    ("wrong", "because"),
    [
        ({"issuer": "http://login.example.com"}, "https"),
        ({"client_secret": ""}, "client_secret"),
        ({"id": "No Id"}, "pattern"),
        ({"color": "red"}, "not permitted"),
    ],
)
def test_settings_of_a_provider_are_checked(wrong: dict[str, str], because: str) -> None:
    with pytest.raises(ValidationError, match=because) as refused:
        Config(oidc=json.dumps([OidcProvider(1).settings(**wrong)]))  # type: ignore[arg-type]
    assert refused.value.error_count() == 1
