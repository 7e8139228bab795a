import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from controlplane.accounts.bearer import MAX_HEADER_CHARACTERS, bearer_text
from controlplane.accounts.models import LASTS, USE_RECORDED_EVERY, ApiToken, Membership
from controlplane.core.issued import ROTATES_WITHIN
from controlplane.fleet.models import Team
from tests.support.web.people import member

PAGE = "/metrics"


@pytest.fixture
def token(db: None) -> tuple[ApiToken, str]:
    return ApiToken.objects.issue(member("robot", "viewer"), "capacity report")


def get(client: Client, text: str) -> int:
    return client.get(PAGE, headers={"Authorization": f"Bearer {text}"}).status_code


@pytest.mark.parametrize(
    "end",
    [
        lambda: ApiToken.objects.update(expires_at=timezone.now()),
        lambda: User.objects.update(is_active=False),
        lambda: ApiToken.objects.all().delete(),
    ],
    ids=["expired", "of a deactivated user", "deleted"],
)
def test_a_token_opens_what_a_login_opens_until_its_end(
    outsider: Client, owner: Client, token: tuple[ApiToken, str], end: Callable[[], object]
) -> None:
    assert outsider.get(PAGE).status_code == 401
    assert get(outsider, token[1]) == 200
    assert get(owner, token[1][:-1]) == 401, "a wrong one is refused even with a session"
    end()
    assert get(outsider, token[1]) == 401


def test_the_token_itself_is_not_stored(token: tuple[ApiToken, str]) -> None:
    record, text = token
    stored = ApiToken.objects.values().get()
    assert all(text not in str(value) for value in stored.values())
    assert text.startswith(record.prefix)
    assert len(text) > len(record.prefix) + 32


def test_a_token_ends_after_90_days_unless_its_maker_says_otherwise(token: tuple[ApiToken, str], owner: Client) -> None:
    assert timedelta(days=89) < token[0].expires_at - timezone.now() <= timedelta(days=90)  # type: ignore[operator]
    form = owner.get("/admin/accounts/apitoken/add/").content.decode()
    assert f"{timezone.now() + timedelta(days=90):%Y-%m-%d}" in form
    assert form.count('name="scopes" value="read" id="id_scopes_0" checked') == form.count(" checked") == 1


def test_a_rotated_token_works_beside_the_new_one_for_a_day(outsider: Client, token: tuple[ApiToken, str]) -> None:
    old, text = token
    new, renewed = old.rotate()
    assert [get(outsider, each) for each in (text, renewed)] == [200, 200]
    assert (new.name, new.user, new.scopes) == (old.name, old.user, old.scopes)
    assert abs((new.expires_at - timezone.now()) - LASTS) < timedelta(minutes=1)  # type: ignore[operator]
    assert timedelta(hours=23) < old.expires_at - timezone.now() <= ROTATES_WITHIN  # type: ignore[operator]
    ends = old.expires_at = timezone.now() + timedelta(hours=1)
    old.rotate()
    assert ApiToken.objects.get(pk=old.pk).expires_at == ends, "rotating lengthened its life"


def test_an_owner_rotates_a_token_in_the_admin(owner: Client, token: tuple[ApiToken, str]) -> None:
    page = owner.post(
        "/admin/accounts/apitoken/", {"action": "rotate", "_selected_action": [token[0].pk]}, follow=True
    ).content.decode()
    new = ApiToken.objects.latest("pk")
    assert new != token[0]
    [text] = set(re.findall(rf"{re.escape(new.prefix)}[\w-]{{20,}}", page))
    assert get(Client(), text) == 200


def test_use_is_recorded_but_not_at_every_request(outsider: Client, token: tuple[ApiToken, str]) -> None:
    get(outsider, token[1])
    first = ApiToken.objects.get().last_used_at
    with CaptureQueriesContext(connection) as asked:
        get(outsider, token[1])
    assert not [each["sql"] for each in asked if "UPDATE" in each["sql"]]
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - USE_RECORDED_EVERY - timedelta(seconds=1))
    get(outsider, token[1])
    assert ApiToken.objects.get().last_used_at >= first  # type: ignore[operator]


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic b2xnYTpvbGdh", "Token abc", f"Bearer {'x' * (MAX_HEADER_CHARACTERS + 1)}"],
)
def test_what_is_no_bearer_token_is_not_looked_up(header: str) -> None:
    assert bearer_text(header) is None


def test_the_scheme_is_case_insensitive() -> None:
    assert bearer_text("bEARER  abc ") == "abc"


def test_an_owner_makes_a_token_in_the_admin_and_sees_it_once(owner: Client) -> None:
    user = User.objects.get(username="olga")
    page = owner.post(
        "/admin/accounts/apitoken/add/",
        {"name": "report", "user": user.pk, "scopes": ["read"], "expires_at_0": "", "expires_at_1": ""},
        follow=True,
    )
    record = ApiToken.objects.get()
    assert (record.scopes, record.expires_at) == (["read"], None)
    text = next(
        word
        for word in page.content.decode().replace("<", " ").split()
        if word.startswith(record.prefix) and word != record.prefix
    )
    assert get(Client(), text) == 200
    assert text not in owner.get(f"/admin/accounts/apitoken/{record.pk}/change/").content.decode()


def test_renaming_a_token_keeps_it(owner: Client, token: tuple[ApiToken, str]) -> None:
    record, text = token
    owner.post(
        f"/admin/accounts/apitoken/{record.pk}/change/",
        {"name": "other", "user": record.user_id, "scopes": ["read"], "expires_at_0": "", "expires_at_1": ""},
    )
    assert ApiToken.objects.get().name == "other"
    assert get(Client(), text) == 200


def test_a_token_that_sends_too_much_waits_and_others_do_not(
    outsider: Client, token: tuple[ApiToken, str], settings: Settings
) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"api_requests_per_minute": 3})
    other = ApiToken.objects.issue(member("other", "viewer"), "other")[1]

    def ask(text: str, path: str = "/api/v1/incidents") -> Any:
        return outsider.get(path, headers={"Authorization": f"Bearer {text}"})

    assert [ask(token[1]).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = ask(token[1])
    assert 1 <= int(refused["Retry-After"]) <= 20 and "3 requests a minute" in refused.json()["detail"]
    assert ask(other).status_code == 200
    assert ask(token[1], PAGE).status_code == 200, "scrapers go on"


@pytest.mark.django_db
@pytest.mark.parametrize("administers", [True, False])
def test_a_token_of_a_team_changes_what_is_that_teams_alone(outsider: Client, administers: bool) -> None:
    user = member("rita", "owner", team="serving")
    Membership.objects.create(team=Team.objects.create(name="search"), user=user, role="owner")
    User.objects.filter(pk=user.pk).update(is_superuser=administers)
    made, _ = ApiToken.objects.issue(User.objects.get(pk=user.pk), "deployer", ["admin"])
    ApiToken.objects.update(team=Team.objects.get(name="search"))
    _, text = ApiToken.objects.get(pk=made.pk).rotate()

    def sent(team: str) -> int:
        body = {"slug": team, "name": team, "indicator": {"kind": "availability"}, "target": 0.99, "owner": team}
        headers = {"Authorization": f"Bearer {text}"}
        return outsider.post("/api/v1/objectives", body, content_type="application/json", headers=headers).status_code

    assert (sent("search"), sent("serving")) == (201, 403)
    assert outsider.get("/api/v1/audit", headers={"Authorization": f"Bearer {text}"}).status_code == 403
    Team.objects.get(name="search").delete()
    assert get(outsider, text) == 401, "it is not widened"
