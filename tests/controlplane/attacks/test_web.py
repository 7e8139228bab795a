"""Classic attacks on the web process that no other test names. docs/attacks.md lists all."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse_lazy
from pytest_django import Settings
from structlog.testing import capture_logs

from controlplane.accounts.models import ApiToken
from tests.support.web.urls import all_urls

LOGIN = reverse_lazy("account_login")
PASSWORD = "slow-river-under-bridge"
SIGNED = ("/hooks/pagerduty", "/login/through/x/ended", "/login/saml/x/back")
"""What other servers call: what they say is signed, and no cookie counts."""
PAGES = ("/login", "/audit", "/admin/", "/silences", "/api/v1/incidents", "/nowhere")


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


@pytest.fixture
def browser(olga: User) -> Client:
    """Of somebody who is logged in, where forms are checked as in earnest."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    return client


def test_a_form_of_another_page_changes_nothing(browser: Client) -> None:
    paths = [path for path in all_urls() if path not in SIGNED]
    assert len(paths) > 50
    assert {path: status for path in paths if (status := browser.post(path).status_code) not in (403, 405)} == {}


def test_a_good_token_from_another_origin_is_refused(browser: Client, settings: Settings) -> None:
    browser.get("/silences")
    token = browser.cookies[settings.CSRF_COOKIE_NAME].value
    forms = {"csrfmiddlewaretoken": token}
    assert browser.post("/logout", forms, headers={"Origin": "https://evil.example"}).status_code == 403
    assert browser.post("/logout", forms, headers={"Origin": "null"}).status_code == 403
    assert browser.post("/logout", forms, headers={"Origin": "http://testserver"}).status_code == 302


def test_a_session_that_was_planted_before_the_log_in_opens_nothing(olga: User, settings: Settings) -> None:
    attacker, victim = Client(), Client()
    attacker.get(LOGIN)
    session = attacker.session
    session["planted"] = True
    session.save()
    planted = session.session_key
    victim.cookies[settings.SESSION_COOKIE_NAME] = planted
    assert victim.post(LOGIN, {"login": "olga", "password": PASSWORD}).status_code == 302
    assert victim.cookies[settings.SESSION_COOKIE_NAME].value != planted
    attacker.cookies[settings.SESSION_COOKIE_NAME] = planted
    assert attacker.get("/admin/").status_code == 302


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/", "//evil.example", "///evil.example",
        r"\\evil.example", r"/\evil.example", "https:evil.example", "/\t/evil.example",
        "javascript:alert(1)", "data:text/html,x", "http://testserver@evil.example/", "https://evil.example\r\nSet-Cookie: a=b",
    ],
)  # fmt: skip
def test_the_log_in_leads_nowhere_else(outsider: Client, olga: User, to: str) -> None:
    answer = outsider.post(LOGIN, {"login": "olga", "password": PASSWORD, "next": to})
    assert answer.status_code == 302
    assert answer["Location"] == "/"
    assert "Set-Cookie: a=b" not in str(answer.headers)


@pytest.mark.parametrize("host", ["evil.example", "testserver.evil.example", "testserver:80@evil.example", ""])
def test_a_forged_host_is_refused(outsider: Client, settings: Settings, host: str) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    assert outsider.get(LOGIN, headers={"Host": host}, SERVER_NAME=host or "evil.example").status_code == 400


def test_a_forwarded_host_is_not_believed(outsider: Client, db: None) -> None:
    answer = outsider.get("/admin/", headers={"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"})
    assert "evil.example" not in answer["Location"] + answer.content.decode()


def test_a_name_cannot_write_a_line_of_its_own_into_the_log(
    outsider: Client, db: None, caplog: pytest.LogCaptureFixture
) -> None:
    forged = "olga\n2026-01-01 [critical] everything.deleted\x1b[2J"
    with capture_logs():
        outsider.post(LOGIN, {"login": forged, "password": "guess"})
    assert [
        line for record in caplog.records for line in record.getMessage().splitlines() if line.startswith("2026-01-01")
    ] == []


@pytest.mark.parametrize("path", PAGES)
def test_no_page_can_be_framed_sniffed_or_leaks_where_one_was(browser: Client, path: str) -> None:
    answer = browser.get(path)
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"


def test_scripts_and_other_sites_do_not_get_the_cookies(outsider: Client, olga: User, settings: Settings) -> None:
    outsider.post(LOGIN, {"login": "olga", "password": PASSWORD})
    for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME):
        cookie = outsider.cookies[name]
        assert cookie["httponly"] and cookie["samesite"] == "Lax"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "GET "])
def test_another_method_changes_nothing(browser: Client, method: str) -> None:
    assert browser.generic(method, "/logout").status_code in (403, 405)
    assert browser.get("/audit", headers={"X-HTTP-Method-Override": "DELETE"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../manage.py", "/static/%2e%2e/manage.py", "/static/..%2fmanage.py", "/static//etc/passwd", "/static/....//manage.py",
        "/static/%00", "/static/weir/..%5c..%5cmanage.py",
    ],
)  # fmt: skip
def test_no_file_outside_of_the_static_ones_is_served(browser: Client, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code in (400, 404)


def test_a_token_is_taken_from_its_header_alone(olga: User) -> None:
    _, text = ApiToken.objects.issue(olga, "t")
    client = Client()
    assert client.get("/api/v1/incidents", {"token": text, "access_token": text}).status_code in (401, 422)
    client.cookies["Authorization"] = f"Bearer {text}"
    assert client.get("/api/v1/incidents").status_code == 401
    assert client.get("/api/v1/incidents", headers={"Authorization": f"Bearer {text}"}).status_code == 200
